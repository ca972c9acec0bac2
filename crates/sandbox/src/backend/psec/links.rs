//! What a name in a workspace is as a link, from what Windows says of it: a pure judgement, since every kind has to
//! be tested and few machines make them all. How a name is opened without following it is not known here.
//!
//! A link shares its target's security descriptor. Whoever makes a hard link needs to be allowed to write the
//! target's attributes, and both lie on one volume: a workspace on a volume of its own has no such link to outside.

use super::paths::WindowsPath;
use crate::links::{Leaving, Shared};

/// FILE_ATTRIBUTE_DIRECTORY (Microsoft Learn, File Attribute Constants).
const DIRECTORY: u32 = 0x10;
/// FILE_ATTRIBUTE_REPARSE_POINT.
const REPARSE_POINT: u32 = 0x400;

/// A tag with this bit names another place (Microsoft Learn, IsReparseTagNameSurrogate): symlinks (0xA000000C),
/// junctions and mounted volumes (0xA0000003), links of Linux (0xA000001D). Without it the data is the file's own in
/// another form: placeholders of a cloud, compressed or deduplicated files, sockets (0x80000023).
const NAME_SURROGATE: u32 = 0x2000_0000;

/// What Windows says of one name that was opened without following it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The name.
    pub path: WindowsPath,
    /// Its attributes.
    pub attributes: u32,
    /// Its reparse tag, where it has one.
    pub tag: Option<u32>,
    /// What the link says, as text.
    pub target: Option<String>,
    /// Where it really leads, asked of a handle that did follow it; none when that failed.
    pub leads_to: Option<WindowsPath>,
    /// How many names the file has.
    pub links: u32,
    /// All its names, where Windows tells them.
    pub names: Option<Vec<WindowsPath>>,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Itself, or a link that stays inside.
    Nothing,
    /// A link out, or to where nobody can tell.
    Leaves(Leaving),
    /// A file that has names outside, or whose names are not known.
    Shared(Shared),
}

/// What one name in the writable folders `roots`, which are final paths, is.
pub fn judge(seen: &Seen, roots: &[WindowsPath]) -> Judgement {
    let inside = |path: &WindowsPath| roots.iter().any(|root| root.contains(path));
    let is_link =
        seen.attributes & REPARSE_POINT != 0 && seen.tag.is_none_or(|tag| tag & NAME_SURROGATE != 0);
    if is_link {
        return match &seen.leads_to {
            Some(real) if inside(real) => Judgement::Nothing,
            Some(real) => Judgement::Leaves(Leaving { path: seen.path.to_path(), target: real.to_path() }),
            None => dangling(seen, &inside),
        };
    }
    // A folder has one name.
    if seen.attributes & DIRECTORY != 0 || seen.links <= 1 {
        return Judgement::Nothing;
    }
    let inside = match &seen.names {
        Some(names) => names.iter().filter(|name| inside(name)).count() as u64,
        None => 1,
    };
    if inside >= u64::from(seen.links) {
        return Judgement::Nothing;
    }
    Judgement::Shared(Shared { path: seen.path.to_path(), names: seen.links.into(), inside })
}

/// A link to nothing that can be opened: what it says decides, and what says nothing clear leads out.
fn dangling(seen: &Seen, inside: &dyn Fn(&WindowsPath) -> bool) -> Judgement {
    let text = seen.target.as_deref().unwrap_or_default();
    // A junction says its target in the object manager's form.
    let (text, whole) = text.strip_prefix(r"\??\").map_or((text, false), |text| (text, true));
    let target = match text.parse::<WindowsPath>() {
        Ok(target) => Ok(target),
        // A relative target is meant from the folder that the link lies in.
        Err(error) => match seen.path.parent() {
            Some(folder)
                if !whole && !text.is_empty() && !text.starts_with(['\\', '/']) && !text.contains(':') =>
            {
                format!("{folder}\\{text}").parse().map_err(|_| error)
            }
            _ => Err(error),
        },
    };
    match target {
        // It leads to where nothing is yet: nobody knows which links lie on the way.
        Ok(target) if inside(&target) => Judgement::Nothing,
        Ok(target) => Judgement::Leaves(Leaving { path: seen.path.to_path(), target: target.to_path() }),
        Err(_) => Judgement::Leaves(Leaving { path: seen.path.to_path(), target: text.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMLINK: u32 = 0xa000_000c;
    const JUNCTION: u32 = 0xa000_0003;
    const LINUX_LINK: u32 = 0xa000_001d;
    const SOCKET: u32 = 0x8000_0023;
    const CLOUD: u32 = 0x9000_101a;
    const DEDUPLICATED: u32 = 0x8000_0013;

    fn path(text: &str) -> WindowsPath {
        text.parse().unwrap()
    }

    fn file(links: u32, names: Option<&[&str]>) -> Seen {
        Seen {
            path: path(r"C:\work\p\hl.txt"),
            attributes: 0x20,
            tag: None,
            target: None,
            leads_to: None,
            links,
            names: names.map(|names| names.iter().map(|name| path(name)).collect()),
        }
    }

    fn link(attributes: u32, tag: u32, target: &str, leads_to: Option<&str>) -> Seen {
        Seen {
            path: path(r"C:\work\p\l"),
            attributes: attributes | REPARSE_POINT,
            tag: Some(tag),
            target: Some(target.into()),
            leads_to: leads_to.map(path),
            links: 1,
            names: None,
        }
    }

    fn judged(seen: &Seen) -> Judgement {
        judge(seen, &[path(r"C:\work\p"), path(r"D:\cache")])
    }

    fn leaves(seen: &Seen, to: &str) {
        assert_eq!(judged(seen), Judgement::Leaves(Leaving { path: seen.path.to_path(), target: to.into() }));
    }

    /// C044: files and symlinks with a name outside; C043: junctions.
    #[test]
    fn c043_c044_links_that_lead_out_are_named() {
        leaves(&link(0x20, SYMLINK, r"C:\Users\u\x.txt", Some(r"C:\Users\u\x.txt")), r"C:\Users\u\x.txt");
        leaves(
            &link(DIRECTORY, JUNCTION, r"\??\C:\Users\u\Documents", Some(r"C:\Users\u\Documents")),
            r"C:\Users\u\Documents",
        );
        // What it says and where it leads may differ: the handle decides.
        leaves(&link(DIRECTORY, SYMLINK, r".\src", Some(r"C:\evil")), r"C:\evil");
        leaves(&link(DIRECTORY, SYMLINK, "..", Some(r"C:\work")), r"C:\work");
        leaves(&link(0x20, LINUX_LINK, "/etc/passwd", None), "/etc/passwd");
        for seen in [
            link(0x20, SYMLINK, "a.txt", Some(r"C:\work\p\a.txt")),
            link(DIRECTORY, JUNCTION, r"\??\D:\cache\x", Some(r"d:\CACHE\x")),
        ] {
            assert_eq!(judged(&seen), Judgement::Nothing);
        }
    }

    /// A link to nothing: a program outside may make the target, or follow it once somebody has.
    #[test]
    fn a_link_to_nothing_is_judged_by_what_it_says() {
        leaves(&link(0x20, SYMLINK, r"C:\Users\u\new", None), r"C:\Users\u\new");
        leaves(&link(0x20, SYMLINK, r"..\..\new", None), r"C:\new");
        leaves(&link(DIRECTORY, JUNCTION, r"\??\Volume{1}\x", None), r"Volume{1}\x");
        leaves(&link(0x20, SYMLINK, r"\\server\share\x", None), r"\\server\share\x");
        leaves(&link(0x20, SYMLINK, r"\rooted", None), r"\rooted");
        leaves(&link(0x20, SYMLINK, "", None), "");
        for inside in [r"sub\new", r"C:\work\P\new", r"\??\C:\work\p\new", r"\\?\D:\cache\x"] {
            assert_eq!(judged(&link(0x20, SYMLINK, inside, None)), Judgement::Nothing, "{inside}");
        }
        // A reparse point whose tag could not be read may be any.
        let unread = Seen { tag: None, ..link(0x20, SYMLINK, "", None) };
        leaves(&unread, "");
    }

    #[test]
    fn other_reparse_points_are_the_file_itself() {
        for tag in [SOCKET, CLOUD, DEDUPLICATED] {
            assert_eq!(judged(&link(0x20, tag, "", None)), Judgement::Nothing, "{tag:#x}");
            // And may have other names like any.
            let shared = Seen { links: 2, ..link(0x20, tag, "", None) };
            assert!(matches!(judged(&shared), Judgement::Shared(_)), "{tag:#x}");
        }
    }

    #[test]
    fn a_file_with_names_outside_is_named() {
        let shared =
            |names, inside| Judgement::Shared(Shared { path: r"C:\work\p\hl.txt".into(), names, inside });
        assert_eq!(judged(&file(1, None)), Judgement::Nothing);
        assert_eq!(judged(&file(2, Some(&[r"C:\work\p\hl.txt", r"C:\Users\u\same.txt"]))), shared(2, 1));
        assert_eq!(judged(&file(2, Some(&[r"C:\work\p\hl.txt", r"C:\WORK\p\other"]))), Judgement::Nothing);
        assert_eq!(judged(&file(3, Some(&[r"C:\work\p\hl.txt", r"C:\work\p\b"]))), shared(3, 2));
        assert_eq!(judged(&file(2, Some(&[r"C:\work\p\hl.txt", r"C:\work\p2\b"]))), shared(2, 1));
        // Its names are not known: that is not the same as none outside.
        assert_eq!(judged(&file(2, None)), shared(2, 1));
        let folder = Seen { attributes: DIRECTORY, ..file(5, None) };
        assert_eq!(judged(&folder), Judgement::Nothing);
    }
}
