//! What of the desktop is closed to a container: the mask of `ui_restrictions`, whose bits are those of a job
//! object's UI limits (Microsoft Learn, JOBOBJECT_BASIC_UI_RESTRICTIONS; microsoft/mxc, job_object.rs for the last
//! two).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A mask of UI restrictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ui(pub u64);

impl Ui {
    /// USER handles of other programs (JOB_OBJECT_UILIMIT_HANDLES).
    pub const HANDLES: u64 = 0x001;
    /// Reading the clipboard (…READCLIPBOARD).
    pub const READ_CLIPBOARD: u64 = 0x002;
    /// Writing the clipboard (…WRITECLIPBOARD).
    pub const WRITE_CLIPBOARD: u64 = 0x004;
    /// System settings (…SYSTEMPARAMETERS).
    pub const SYSTEM_PARAMETERS: u64 = 0x008;
    /// The display's settings (…DISPLAYSETTINGS).
    pub const DISPLAY_SETTINGS: u64 = 0x010;
    /// A table of atoms of the job's own (…GLOBALATOMS).
    pub const GLOBAL_ATOMS: u64 = 0x020;
    /// Making and switching desktops (…DESKTOP).
    pub const DESKTOP: u64 = 0x040;
    /// Logging off and shutting down (…EXITWINDOWS).
    pub const EXIT_WINDOWS: u64 = 0x080;
    /// Input methods (…IME).
    pub const INPUT_METHODS: u64 = 0x100;
    /// Input that is sent to other programs (…INJECTION).
    pub const INJECTION: u64 = 0x200;

    const NAMED: [(u64, &'static str); 10] = [
        (Ui::HANDLES, "handles"),
        (Ui::READ_CLIPBOARD, "reading the clipboard"),
        (Ui::WRITE_CLIPBOARD, "writing the clipboard"),
        (Ui::SYSTEM_PARAMETERS, "system settings"),
        (Ui::DISPLAY_SETTINGS, "display settings"),
        (Ui::GLOBAL_ATOMS, "global atoms"),
        (Ui::DESKTOP, "desktops"),
        (Ui::EXIT_WINDOWS, "logging off"),
        (Ui::INPUT_METHODS, "input methods"),
        (Ui::INJECTION, "input injection"),
    ];

    /// What every run closes: all but handles and global atoms, without which PowerShell, Python and Node.js end
    /// with 0xC0000142 at their start (measured on 26200.9445). System calls of win32k stay open for the same
    /// reason.
    pub const DEFAULT: Ui = Ui(0x3de);

    /// What has to be closed: clipboard, input injection, desktops, logging off, system and display settings.
    pub const LEAST: Ui = Ui(0x2de);

    /// Does it close all that has to be closed?
    pub const fn is_enough(self) -> bool {
        self.0 & Ui::LEAST.0 == Ui::LEAST.0
    }
}

/// What is closed, in words; bits without a name together in hexadecimal.
impl fmt::Display for Ui {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Ui::NAMED.iter().filter(|(bit, _)| self.0 & bit != 0);
        let mut words: Vec<String> = named.map(|(_, word)| (*word).to_owned()).collect();
        let others = Ui::NAMED.iter().fold(self.0, |rest, (bit, _)| rest & !bit);
        if others != 0 {
            words.push(format!("{others:#x}"));
        }
        if words.is_empty() { out.write_str("nothing") } else { out.write_str(&words.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_all_but_what_interpreters_need() {
        let all = Ui::NAMED.iter().fold(0, |all, (bit, _)| all | bit);
        assert_eq!(all, 0x3ff);
        assert_eq!(Ui::DEFAULT.0, all & !(Ui::HANDLES | Ui::GLOBAL_ATOMS));
        assert!(Ui::DEFAULT.is_enough());
    }

    #[test]
    fn the_least_is_what_is_promised() {
        let promised = Ui::READ_CLIPBOARD
            | Ui::WRITE_CLIPBOARD
            | Ui::SYSTEM_PARAMETERS
            | Ui::DISPLAY_SETTINGS
            | Ui::DESKTOP
            | Ui::EXIT_WINDOWS
            | Ui::INJECTION;
        assert_eq!(Ui::LEAST.0, promised);
        for (bit, word) in Ui::NAMED {
            assert_eq!(Ui(Ui::DEFAULT.0 & !bit).is_enough(), promised & bit == 0, "{word}");
        }
    }

    #[test]
    fn every_bit_is_named_or_shown() {
        assert_eq!(Ui(0).to_string(), "nothing");
        assert_eq!(Ui(0x206).to_string(), "reading the clipboard, writing the clipboard, input injection");
        assert_eq!(Ui(0x8401).to_string(), "handles, 0x8400");
    }
}
