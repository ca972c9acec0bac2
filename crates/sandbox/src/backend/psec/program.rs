//! Which file a command's first word names, as CreateProcessW would look for it: from the variables of the run and
//! its working directory, never from those of the node. Whether a candidate is there is for others to ask.

use super::cmdline::is_batch;

/// Where `program` may lie, in the order in which it is looked for.
///
/// A name without an extension stands for `.exe` alone, as for CreateProcessW; batch files of that name come last,
/// so that they are found and refused for what they are instead of "no such command".
pub fn candidates(program: &str, path: &str, work: &str) -> Vec<String> {
    let named: Vec<String> = match extension(program) {
        Some(_) => vec![program.to_owned()],
        None => ["exe", "cmd", "bat"].iter().map(|extension| format!("{program}.{extension}")).collect(),
    };
    if program.contains(['\\', '/', ':']) {
        let whole = |name: &String| if is_absolute(name) { name.clone() } else { below(work, name) };
        return named.iter().map(whole).collect();
    }
    // An entry that is not absolute would be looked for from wherever the program is.
    let folders: Vec<&str> =
        path.split(';').map(|entry| entry.trim_matches('"')).filter(|entry| is_absolute(entry)).collect();
    let in_order = |batch: bool| {
        let folders = &folders;
        named
            .iter()
            .filter(move |name| is_batch(name) == batch)
            .flat_map(move |name| folders.iter().map(move |folder| below(folder, name)))
    };
    in_order(false).chain(in_order(true)).collect()
}

fn extension(program: &str) -> Option<&str> {
    let name = program.rsplit(['\\', '/']).next().unwrap_or(program);
    name.rsplit_once('.').map(|(_, extension)| extension)
}

fn is_absolute(path: &str) -> bool {
    let mut letters = path.chars();
    match (letters.next(), letters.next(), letters.next()) {
        (Some(drive), Some(':'), Some('\\' | '/')) => drive.is_ascii_alphabetic(),
        (Some('\\'), Some('\\'), Some(_)) => true,
        _ => false,
    }
}

fn below(folder: &str, name: &str) -> String {
    format!("{}\\{name}", folder.trim_end_matches(['\\', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_along_the_runs_own_path() {
        assert_eq!(
            candidates("python.exe", r#"C:\SDK\bin;"C:\my tools\";.;bin;;D:/x"#, r"C:\work"),
            [r"C:\SDK\bin\python.exe", r"C:\my tools\python.exe", r"D:/x\python.exe"]
        );
        // A program before any batch file, wherever they lie.
        assert_eq!(
            candidates("npm", r"C:\a;C:\b", r"C:\work"),
            [
                r"C:\a\npm.exe",
                r"C:\b\npm.exe",
                r"C:\a\npm.cmd",
                r"C:\b\npm.cmd",
                r"C:\a\npm.bat",
                r"C:\b\npm.bat"
            ]
        );
        assert_eq!(candidates("x.exe", "", r"C:\work"), [] as [&str; 0]);
    }

    #[test]
    fn a_path_is_looked_for_where_it_says() {
        assert_eq!(candidates(r"C:\a\x.exe", r"C:\b", r"C:\work"), [r"C:\a\x.exe"]);
        assert_eq!(candidates(r".\x.exe", r"C:\b", r"C:\work"), [r"C:\work\.\x.exe"]);
        assert_eq!(candidates("sub/x", "", r"C:\work\")[0], r"C:\work\sub/x.exe");
        // A dot in a folder's name is no extension.
        assert_eq!(candidates(r"C:\a.b\x", "", r"C:\work")[0], r"C:\a.b\x.exe");
    }
}
