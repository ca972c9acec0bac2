//! What an administrator is told about Windows Firewall, as PowerShell. Nothing here runs any of it.

/// The rule's name.
pub const RULE: &str = "Orchestrator Zero egress relay";

/// Takes the rule away again.
pub const UNDO: &str = "Remove-NetFirewallRule -DisplayName \"Orchestrator Zero egress relay\"";

/// Lists the rules that Windows' own prompt made for the node: to be looked at, and deleted where nothing else
/// needs them, before the rule is added.
pub const OF_THE_NODE: &str = "Get-NetFirewallApplicationFilter | Where-Object Program -like \
                               '*orchestrator-zero-node.exe' | Get-NetFirewallRule";

/// Lists the programs that rules let in, which no check can see.
pub const LETTING_IN: &str = "Get-NetFirewallRule -Direction Inbound -Action Allow -Enabled True | \
                              Get-NetFirewallApplicationFilter | Where-Object Program -ne Any";

/// Lets the relay be reached: one line for an elevated PowerShell, to be run once. `package` is the SID of the
/// relay's profile; none when it is not one.
pub fn allow(program: &str, package: &str) -> Option<String> {
    let ports = super::route::PORTS;
    is_package_sid(package).then(|| {
        format!(
            "New-NetFirewallRule -DisplayName \"{RULE}\" -Direction Inbound -Action Allow -Protocol TCP \
             -LocalAddress 127.0.0.1 -LocalPort {}-{} -Program {} -Package {package}",
            ports.start(),
            ports.end(),
            quoted(program),
        )
    })
}

/// What an administrator is told when a container gets no answer from the relay, a line each.
pub fn advice(program: &str, package: &str) -> Vec<String> {
    let mut lines = vec![
        "Where a rule of Windows Firewall holds the relay, a container's connection gets no answer. In an elevated \
         PowerShell, look for rules that Windows' own prompt made for this program, and delete them where nothing \
         else needs them:"
            .to_owned(),
        format!("  {OF_THE_NODE}"),
    ];
    if let Some(allow) = allow(program, package) {
        lines.push("Where there is none, let the relay in, once:".to_owned());
        lines.push(format!("  {allow}"));
        lines.push("Its undo:".to_owned());
        lines.push(format!("  {UNDO}"));
    }
    lines
}

/// A PowerShell literal in single quotes. PowerShell takes four typographic marks for single quotes too, so each
/// of them is doubled as well; controls cannot be in a path and are left out of a line that is to be copied.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        if matches!(letter, '\'' | '\u{2018}'..='\u{201b}') {
            quoted.push(letter);
        }
        quoted.push(letter);
    }
    quoted.push('\'');
    quoted
}

/// `S-1-15-2-` and seven numbers: the form of an AppContainer's SID.
fn is_package_sid(text: &str) -> bool {
    let Some(numbers) = text.strip_prefix("S-1-15-2-") else { return false };
    let is_number = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u32>().is_ok()
    };
    numbers.split('-').count() == 7 && numbers.split('-').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SID: &str = "S-1-15-2-1-22-333-4444-55555-666666-4294967295";

    #[test]
    fn the_command_is_the_one_that_is_promised() {
        let program = r"C:\Program Files\Orchestrator Zero\orchestrator-zero-node.exe";
        assert_eq!(
            allow(program, SID).unwrap(),
            format!(
                "New-NetFirewallRule -DisplayName \"Orchestrator Zero egress relay\" -Direction Inbound -Action \
                 Allow -Protocol TCP -LocalAddress 127.0.0.1 -LocalPort 47330-47361 -Program '{program}' -Package \
                 {SID}"
            )
        );
        assert!(UNDO.contains(RULE));
    }

    #[test]
    fn the_advice_begins_with_what_is_there_and_ends_with_the_undo() {
        let lines = advice(r"C:\a.exe", SID);
        let place = |text: &str| lines.iter().position(|line| line.trim() == text);
        let allowed = allow(r"C:\a.exe", SID).unwrap();
        assert!(place(OF_THE_NODE) < place(&allowed) && place(&allowed) < place(UNDO), "{lines:?}");
        assert_eq!(advice("a.exe", "nobody").len(), 2, "no command for what is no profile");
    }

    /// C152: a path with a space and an apostrophe is one literal.
    #[test]
    fn c152_nothing_in_a_path_ends_its_literal() {
        for (path, literal) in [
            (r"C:\it's here\a.exe", r"'C:\it''s here\a.exe'"),
            ("C:\\a\u{2019}b\u{201b}.exe", "'C:\\a\u{2019}\u{2019}b\u{201b}\u{201b}.exe'"),
            (r"C:\$(calc)`n;&.exe", r"'C:\$(calc)`n;&.exe'"),
            ("C:\\a\r\nb.exe", r"'C:\ab.exe'"),
            ("'; calc; '", "'''; calc; '''"),
        ] {
            assert_eq!(quoted(path), literal);
        }
    }

    #[test]
    fn only_a_packages_sid_is_printed() {
        assert!(is_package_sid(SID));
        for other in [
            "",
            "S-1-15-2-1",
            "S-1-5-32-544",
            "S-1-15-2-1-22-333-4444-55555-666666-4294967296",
            "S-1-15-2-1-22-333-4444-55555-666666-7-8",
            "S-1-15-2-1-22-333-4444-55555-666666-+7",
            "S-1-15-2-1-22-333-4444-55555-666666-; calc",
        ] {
            assert_eq!(allow("a.exe", other), None, "{other}");
        }
    }
}
