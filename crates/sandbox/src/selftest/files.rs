//! files: nothing outside the granted folders is written, and the node's data directory and key are neither read
//! nor listed, by whatever name.
//!
//! What a run is not granted is not in its tree at all, so there "not found" is the refusal: the control has just
//! read the same path outside. Where the tree does show a folder, only "access denied" and "read-only" count.

use std::fs;
use std::path::{Path, PathBuf};

use super::Lab;
use super::act::{Act, Answer};
use super::evidence::{FORBIDDEN, Fault, OUT_OF_SIGHT, Tried, done};
use super::lab::{cannot_set_up, put, together};
use super::session::Told;
use crate::policy::Policy;
use crate::sys::attempt;
use crate::text;

/// Where a node's key is, below its data directory.
const KEY: &str = "identity/node.key";

/// What must come of an act inside.
#[derive(Clone, Copy)]
enum Right {
    /// Refused by what the tree shows.
    Forbidden,
    /// Refused, or not in the tree.
    OutOfSight,
    /// The same; and the host may refuse it as well.
    Closed,
}

impl Right {
    fn judge(self, tried: &Tried) -> Result<String, Fault> {
        match self {
            Right::Forbidden => tried.refused(FORBIDDEN),
            Right::OutOfSight => tried.refused(OUT_OF_SIGHT),
            Right::Closed => tried.closed(OUT_OF_SIGHT),
        }
    }
}

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let ground = Ground::prepare(lab)?;
    let mut policy = lab.policy(&ground.work);
    policy.read.push(ground.readable.clone());
    let particulars = lab.particulars();
    if particulars.data_directory_by_its_list {
        // Nothing is there, so nothing is denied.
        policy.data_directory = ground.top.join("none");
    }
    let real = &lab.node().data_directory;
    let (has_data, has_key) = (real.is_dir(), real.join(KEY).exists());
    // A caller that is careless with descriptors: this one is open on the stand-in, and every program inherits it.
    let held =
        attempt::open_inheritable(&ground.data).map_err(|error| cannot_set_up(&ground.data, &error))?;

    let mut asked = vec![
        (Act::Write(ground.outside.join("kept")), Right::OutOfSight),
        // A canary outside every granted path (C143).
        (Act::Read(ground.outside.join("kept")), Right::OutOfSight),
        (Act::Write(ground.readable.join("kept")), Right::Forbidden),
        (Act::Read(ground.data.join(KEY)), Right::OutOfSight),
        (Act::List(ground.data.clone()), Right::OutOfSight),
    ];
    if has_data {
        asked.push((Act::List(real.clone()), Right::OutOfSight));
    }
    if has_key {
        asked.push((Act::Read(real.join(KEY)), Right::OutOfSight));
    }
    // Of these names, those that lead by way of the first process are not everybody's outside either.
    let names = attempt::aliases(&ground.data.join(KEY), &ground.work, &held, &ground.data);
    asked.extend(names.into_iter().map(|name| (Act::Read(name), Right::Closed)));
    let (acts, rights): (Vec<Act>, Vec<Right>) = asked.into_iter().unzip();

    // These show that the subject can write and read at all.
    let granted = [Act::Write(ground.work.join("written")), Act::Read(ground.readable.join("kept"))];
    let inside_acts = [&acts[..], &granted[..]].concat();
    let (outside, inside) = together(|| lab.outside(&acts), || lab.inside(&policy, &inside_acts));
    drop(held);
    let (outside, mut inside) = (outside?, inside?);
    for (act, answer) in granted.iter().zip(inside.split_off(acts.len())) {
        done(act, &answer)?;
    }
    for (((act, outside), inside), right) in acts.into_iter().zip(outside).zip(inside).zip(rights) {
        right.judge(&Tried { act, outside, inside })?;
    }
    ground.is_untouched()?;
    refuses_grants(lab, &ground)?;
    let about = particulars.about_data_directory.filter(|_| has_data).and_then(|about| about(real));
    let about = about.map(|about| format!("; {about}")).unwrap_or_default();
    Ok(saw(real, has_data, has_key) + &about)
}

fn saw(real: &Path, has_data: bool, has_key: bool) -> String {
    let real = text::escape(real);
    let ours = match (has_data, has_key) {
        (false, _) => format!("the node has no data directory at {real} yet: only the stand-in was checked"),
        (true, false) => format!("the node's data directory {real}: listing refused; it holds no key yet"),
        (true, true) => format!("the node's data directory {real}: listing refused, reading {KEY} refused"),
    };
    format!("{ours}; what is not granted is not in the tree, what is granted for reading is not written")
}

/// The lab's folders: one to work in, one to read, and two that no run of this check is granted.
struct Ground {
    top: PathBuf,
    work: PathBuf,
    readable: PathBuf,
    outside: PathBuf,
    data: PathBuf,
}

const CONTENTS: &str = "as it was\n";

impl Ground {
    fn prepare(lab: &Lab<'_>) -> Result<Ground, Fault> {
        let top = lab.folder("files")?;
        let below = |name: &str| top.join(name);
        let ground = Ground {
            work: below("work"),
            readable: below("readable"),
            outside: below("outside"),
            data: below("data"),
            top,
        };
        fs::create_dir(&ground.work).map_err(|error| cannot_set_up(&ground.work, &error))?;
        put(&ground.readable.join("kept"), CONTENTS)?;
        put(&ground.outside.join("kept"), CONTENTS)?;
        put(&ground.data.join(KEY), lab.mark())?;
        Ok(ground)
    }

    /// The control wrote one line to each; nobody else did.
    fn is_untouched(&self) -> Result<(), Fault> {
        for file in [self.outside.join("kept"), self.readable.join("kept")] {
            let lines =
                fs::read_to_string(&file).map_err(|error| cannot_set_up(&file, &error))?.lines().count();
            if lines > 2 {
                return Err(Fault::broken(format!("{} was written from inside", text::escape(&file))));
            }
        }
        Ok(())
    }
}

/// A grant that shows the data directory is refused, or shows nothing of it: by the folder around it, and by a
/// link to it.
fn refuses_grants(lab: &Lab<'_>, ground: &Ground) -> Result<(), Fault> {
    let link = ground.top.join("link");
    attempt::link(&ground.data, &link).map_err(|error| cannot_set_up(&link, &error))?;
    for grant in [&ground.top, &link] {
        let mut policy: Policy = lab.policy(&ground.work);
        policy.data_directory.clone_from(&ground.data);
        policy.read.push(grant.clone());
        let acts = [Act::Read(ground.data.join(KEY))];
        let Ok(started) = lab.start(&policy, &[], &acts) else { continue };
        let ended = started.end(super::lab::PATIENCE).map_err(super::lab::silent)?;
        if matches!(ended.told, Told::Sandbox { .. }) {
            continue;
        }
        match ended.lines.first().map(|line| super::lab::answer(line)).transpose()? {
            Some(Answer::Refused(_)) => {}
            Some(Answer::Done(_)) => {
                let grant = text::escape(grant);
                return Err(Fault::broken(format!("a grant of {grant} showed the data directory in it")));
            }
            _ => return Err(Fault::undecided("a run that is granted the data directory told nothing")),
        }
    }
    Ok(())
}
