//! Secrets taken out of a stream of bytes, wherever its pieces are cut. Knows neither jobs nor logs.

use oz0_fleet::protocol::Secret;

/// What stands where a secret was.
const MASK: &[u8] = b"***";
/// A line of a secret that has several is masked for itself from this length: a `}` alone is no secret.
const SHORTEST_LINE: usize = 4;

/// Masks secrets. There is no Debug: they are in it.
pub struct Mask {
    /// Longest first.
    secrets: Vec<Vec<u8>>,
    /// Which bytes a secret begins with.
    begins: [bool; 256],
    /// The end of what came, while it may be the beginning of a secret.
    held: Vec<u8>,
}

impl Mask {
    /// Mask these: each as a whole, and its lines.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Mask {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let text = secret.reveal();
            all.push(text.trim_end_matches(['\r', '\n']).into());
            let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
            all.extend(lines.map(|line| line.as_bytes().to_vec()));
        }
        all.retain(|secret| !secret.is_empty());
        all.sort_by(|one, two| two.len().cmp(&one.len()).then_with(|| one.cmp(two)));
        all.dedup();
        let mut begins = [false; 256];
        for secret in &all {
            begins[usize::from(secret[0])] = true;
        }
        Mask { secrets: all, begins, held: Vec::new() }
    }

    /// What of the stream can be passed on after this piece.
    pub fn piece(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return piece.to_vec();
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        let (masked, rest) = self.mask(&bytes, false);
        self.held = bytes.split_off(rest);
        masked
    }

    /// What is left when the stream has ended.
    pub fn end(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.held);
        self.mask(&bytes, true).0
    }

    /// The masked bytes, and from where on more has to be seen.
    fn mask(&self, bytes: &[u8], whole: bool) -> (Vec<u8>, usize) {
        let mut masked = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if !self.begins[usize::from(rest[0])] {
                masked.push(rest[0]);
                at += 1;
                continue;
            }
            // A longer one may still come of it, and then the shorter must not be all that is masked.
            if !whole
                && self.secrets.iter().any(|secret| secret.len() > rest.len() && secret.starts_with(rest))
            {
                break;
            }
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                masked.extend_from_slice(MASK);
                at += secret.len();
            } else {
                masked.push(rest[0]);
                at += 1;
            }
        }
        (masked, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret::new((*text).to_owned())).collect()
    }

    fn masked(texts: &[&str], pieces: &[&[u8]]) -> Vec<u8> {
        let mut mask = Mask::new(&secrets(texts));
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| mask.piece(piece)).collect();
        all.extend(mask.end());
        all
    }

    #[test]
    fn a_secret_is_masked_wherever_the_pieces_are_cut() {
        let text = b"a=hunter2! b=hunter2hunter2 hunter hunter2";
        let expected = b"a=***! b=****** hunter ***".to_vec();
        for cut in 0..=text.len() {
            assert_eq!(masked(&["hunter2"], &[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(masked(&["hunter2"], &single), expected);
    }

    #[test]
    fn of_two_that_begin_alike_the_longer_is_masked_whole() {
        assert_eq!(masked(&["abc", "abcdef"], &[b"abcd", b"ef abcde abc"]), b"*** ***de ***");
        assert_eq!(masked(&["abc", "bcde"], &[b"abcde"]), b"***de");
    }

    #[test]
    fn bytes_that_are_no_text_pass_as_they_are() {
        let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert_eq!(masked(&["geheim"], &[&all]), all);
        assert_eq!(masked(&[], &[&all]), all);
        assert_eq!(masked(&["", "\n"], &[&all]), all);
    }

    #[test]
    fn each_line_of_a_secret_is_one() {
        let key = "-----BEGIN\nQUJDREVG\n}\n-----END\n";
        assert_eq!(masked(&[key], &[b"x QUJDREVG } -----END"]), b"x *** } ***");
        assert_eq!(masked(&[key], &[key.as_bytes()]), b"***\n");
    }

    #[test]
    fn what_may_become_a_secret_is_all_that_waits() {
        let mut mask = Mask::new(&secrets(&["hunter2"]));
        assert_eq!(mask.piece(b"go on hun"), b"go on ");
        assert_eq!(mask.piece(b"t"), b"");
        assert_eq!(mask.piece(b"!"), b"hunt!");
    }
}
