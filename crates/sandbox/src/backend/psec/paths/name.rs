//! One name of a path: which letters it may hold, when Windows takes it for a device, when it is a short name, and
//! what it is without regard to case.

/// Letters that no name holds (Microsoft Learn, Naming Files, Paths, and Namespaces); the colon is looked at apart.
/// The three marks `<`, `>` and `"` are wildcards of an older kind.
pub(super) const fn is_forbidden(letter: char) -> bool {
    matches!(letter, '<' | '>' | '"' | '|' | '?' | '*' | '/' | '\0'..='\x1f')
}

/// Devices that older programs name without a path; Windows looks at what stands before the first dot.
pub(super) fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ').to_ascii_uppercase();
    if ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str()) {
        return true;
    }
    let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let mut digits = number.unwrap_or_default().chars();
    matches!((digits.next(), digits.next()), (Some('0'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}'), None))
}

/// `LONGNA~1.TXT`: up to eight and three letters, with a tilde and a number.
pub(super) fn is_short(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let Some((head, number)) = stem.rsplit_once('~') else { return false };
    let numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    numbered
        && !head.is_empty()
        && stem.chars().count() <= 8
        && extension.chars().count() <= 3
        && !extension.contains('.')
}

/// The name as NTFS compares it: each UTF-16 unit in upper case, where that is one unit as well.
pub fn fold(name: &str) -> Vec<u16> {
    name.encode_utf16().map(fold_unit).collect()
}

/// The same of UTF-16 units; names of variables are compared alike.
pub fn fold_units(name: &[u16]) -> Vec<u16> {
    name.iter().copied().map(fold_unit).collect()
}

fn fold_unit(unit: u16) -> u16 {
    let Some(letter) = char::from_u32(u32::from(unit)) else { return unit };
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => u16::try_from(u32::from(upper)).unwrap_or(unit),
        _ => unit,
    }
}
