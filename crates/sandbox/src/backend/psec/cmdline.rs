//! A command as the one line that Windows hands to a program, and back. Windows itself knows no words: every program
//! splits the line, nearly all by the rules of the C runtime (Microsoft Learn, "Parsing C Command-Line Arguments").
//!
//! Batch files are run by cmd.exe, which splits by rules of its own and finds commands in what was meant as a word:
//! no quoting holds for all of them, so they are refused.

use crate::text::escape;

/// The most UTF-16 units of a command line, its end counted (Microsoft Learn, CreateProcessW).
const LONGEST: usize = 32_767;

/// A command that cannot be given to a program word for word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// No program.
    #[error("no command")]
    Empty,
    /// A word that ends early.
    #[error("argument {0} of the command holds a NUL byte, which no program can be given")]
    Nul(usize),
    /// A program's name with a quotation mark.
    #[error("{0}: no name on Windows holds a quotation mark")]
    Quotation(String),
    /// A batch file.
    #[error(
        "{0}: a batch file's arguments cannot be quoted so that each stays one: start the program that it starts, or \
         say `cmd.exe /d /c` and the line as cmd reads it"
    )]
    Batch(String),
    /// Too long.
    #[error("the command line has {0} UTF-16 units, and Windows takes {LONGEST}")]
    TooLong(usize),
}

/// The line of these words, the program first.
pub fn join<S: AsRef<str>>(words: &[S]) -> Result<String, CommandLineError> {
    let (program, arguments) = words.split_first().ok_or(CommandLineError::Empty)?;
    let program = program.as_ref();
    if program.is_empty() {
        return Err(CommandLineError::Empty);
    }
    if program.contains('"') {
        return Err(CommandLineError::Quotation(escape(program)));
    }
    if is_batch(program) {
        return Err(CommandLineError::Batch(escape(program)));
    }
    if let Some(place) = words.iter().position(|word| word.as_ref().contains('\0')) {
        return Err(CommandLineError::Nul(place));
    }
    // In the program's name a backslash is only ever a backslash.
    let mut line = format!("\"{program}\"");
    for word in arguments {
        line.push(' ');
        quote(word.as_ref(), &mut line);
    }
    let units = line.encode_utf16().count() + 1;
    if units > LONGEST { Err(CommandLineError::TooLong(units)) } else { Ok(line) }
}

/// Is it run by cmd.exe? Windows drops dots and spaces at the end of a name before it looks at the extension.
pub fn is_batch(program: &str) -> bool {
    let name = program.rsplit(['\\', '/']).next().unwrap_or(program).trim_end_matches(['.', ' ']);
    // A stream's name is part of the text and not of the extension.
    let name = name.split(':').next().unwrap_or(name).trim_end_matches(['.', ' ']);
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        ["bat", "cmd"].iter().any(|batch| extension.trim_end().eq_ignore_ascii_case(batch))
    })
}

/// One word: in quotation marks where it is empty or would be split, backslashes doubled where they stand before a
/// quotation mark.
fn quote(word: &str, line: &mut String) {
    let plain = !word.is_empty() && !word.contains([' ', '\t', '\n', '\u{b}', '"']);
    if plain {
        line.push_str(word);
        return;
    }
    line.push('"');
    let mut backslashes = 0;
    for letter in word.chars() {
        match letter {
            '\\' => backslashes += 1,
            '"' => {
                line.extend(std::iter::repeat_n('\\', backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(letter);
    }
    line.extend(std::iter::repeat_n('\\', backslashes));
    line.push('"');
}

/// The words of a line, as the C runtime splits it since 2008.
pub fn split(line: &str) -> Vec<String> {
    let mut letters = line.chars().peekable();
    let mut words = vec![program(&mut letters)];
    loop {
        while letters.next_if(|letter| is_blank(*letter)).is_some() {}
        if letters.peek().is_none() {
            return words;
        }
        words.push(argument(&mut letters));
    }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn program(letters: &mut Letters<'_>) -> String {
    let (mut word, mut quoted) = (String::new(), false);
    while let Some(letter) = letters.next_if(|letter| quoted || !is_blank(*letter)) {
        match letter {
            '"' => quoted = !quoted,
            letter => word.push(letter),
        }
    }
    word
}

fn argument(letters: &mut Letters<'_>) -> String {
    let (mut word, mut quoted) = (String::new(), false);
    while let Some(letter) = letters.next_if(|letter| quoted || !is_blank(*letter)) {
        match letter {
            '\\' => {
                let mut backslashes = 1;
                while letters.next_if_eq(&'\\').is_some() {
                    backslashes += 1;
                }
                if letters.peek() != Some(&'"') {
                    word.extend(std::iter::repeat_n('\\', backslashes));
                    continue;
                }
                word.extend(std::iter::repeat_n('\\', backslashes / 2));
                if backslashes % 2 == 1 {
                    word.extend(letters.next());
                }
            }
            // Two within quotation marks are one, and the word goes on in them.
            '"' if quoted && letters.next_if_eq(&'"').is_some() => word.push('"'),
            '"' => quoted = !quoted,
            letter => word.push(letter),
        }
    }
    word
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_where_they_would_be_split() {
        for (word, quoted) in [
            ("plain", "plain"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a\tb", "\"a\tb\""),
            (r"C:\dir\", r"C:\dir\"),
            (r"C:\my dir\", r#""C:\my dir\\""#),
            (r#"say "hi""#, r#""say \"hi\"""#),
            (r#"a\"b"#, r#""a\\\"b""#),
            (r"a\\b c\\", r#""a\\b c\\\\""#),
            ("&|<>^%PATH%", "&|<>^%PATH%"),
        ] {
            let line = join(&["x.exe", word]).unwrap();
            assert_eq!(line, format!("\"x.exe\" {quoted}"));
            assert_eq!(split(&line), ["x.exe", word]);
        }
    }

    /// The examples of Microsoft's page.
    #[test]
    fn a_line_is_split_as_the_c_runtime_splits_it() {
        for (line, words) in [
            (r#"x "a b c" d e"#, vec!["x", "a b c", "d", "e"]),
            (r#"x "ab\"c" "\\" d"#, vec!["x", "ab\"c", "\\", "d"]),
            (r#"x a\\\b d"e f"g h"#, vec!["x", r"a\\\b", "de fg", "h"]),
            (r#"x a\\\"b c d"#, vec!["x", "a\\\"b", "c", "d"]),
            (r#"x a\\\\"b c" d e"#, vec!["x", r"a\\b c", "d", "e"]),
            (r#"x a"b"" c d"#, vec!["x", "ab\" c d"]),
            (r#""C:\Program Files\x.exe" y"#, vec![r"C:\Program Files\x.exe", "y"]),
            (r#""C:\d\" y"#, vec![r"C:\d\", "y"]),
            ("", vec![""]),
            ("x  \t ", vec!["x"]),
        ] {
            assert_eq!(split(line), words, "{line}");
        }
    }

    #[test]
    fn batch_files_are_refused_whatever_ends_their_name() {
        for batch in [
            "x.bat",
            "X.CMD",
            r"C:\a b\x.Bat",
            "x.bat.",
            "x.cmd . .",
            "x.bat ",
            "dir/x.cmd",
            "x.bat::$DATA",
            "x.bat:s.exe",
        ] {
            let error = join(&[batch, "a"]).unwrap_err();
            assert!(matches!(error, CommandLineError::Batch(_)), "{batch}");
            assert!(error.to_string().contains("cmd.exe /d /c"), "{error}");
        }
        for other in ["x.exe", "bat", "cmd", "cmd.exe", "x.bat.exe", "x.bats", r"C:\x.bat\y.exe"] {
            assert!(join(&[other]).is_ok(), "{other}");
        }
        // As an argument it is a word like any other.
        assert!(join(&["cmd.exe", "/d", "/c", "x.bat"]).is_ok());
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        assert_eq!(join::<&str>(&[]), Err(CommandLineError::Empty));
        assert_eq!(join(&["", "a"]), Err(CommandLineError::Empty));
        assert_eq!(join(&["x", "a\0b"]), Err(CommandLineError::Nul(1)));
        assert!(matches!(join(&["x\"y"]), Err(CommandLineError::Quotation(_))));
        assert!(matches!(join(&["x", &"y".repeat(32_767)]), Err(CommandLineError::TooLong(_))));
        let line = join(&["x", &"y".repeat(32_767 - 1 - 4)]).unwrap();
        assert_eq!(line.encode_utf16().count() + 1, 32_767);
    }

    proptest! {
        #[test]
        fn every_word_comes_out_as_it_went_in(
            program in r"[a-zA-Z:\\ ().-]{0,20}[a-z]",
            words in proptest::collection::vec("[a-z \\\\\"\t\n&^%!é日-]{0,12}", 0..6),
        ) {
            prop_assume!(!is_batch(&program));
            let words: Vec<String> = std::iter::once(program).chain(words).collect();
            let line = join(&words).unwrap();
            prop_assert_eq!(split(&line), words);
        }
    }
}
