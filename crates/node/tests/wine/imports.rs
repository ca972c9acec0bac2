//! The program has to start on every Windows 10, 11 and Server from 1607 on, to say there that it is tier 0. Windows
//! refuses to start one that imports a function which it lacks: what newer systems alone have is found at run time.

use std::collections::BTreeSet;

use super::support::binary;

/// Each function with its library. Before one is added, Microsoft Learn says since when Windows has it.
const SINCE_1607: &str = include_str!("imports.txt");

#[test]
fn nothing_is_imported_that_an_older_windows_lacks() {
    let known: BTreeSet<(String, &str)> = SINCE_1607
        .lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(library, names)| names.split(' ').map(|name| (library.to_owned(), name)))
        .collect();
    let program = std::fs::read(binary()).unwrap();
    let imports = Image { bytes: &program }.imports();
    assert!(imports.iter().any(|(library, name)| library == "kernel32.dll" && name == "CreateProcessW"));
    let newer: Vec<_> = imports
        .iter()
        .filter(|(library, name)| {
            library != "msvcrt.dll" && !known.contains(&(library.clone(), name.as_str()))
        })
        .collect();
    assert!(newer.is_empty(), "since when has Windows had these? {newer:#?}");
    // By name: what the node asks for on newer systems alone, or Wine lacks.
    for name in ["IsApiSetImplemented", "CreateAppContainerProfile", "FindFirstFileNameW"] {
        assert!(imports.iter().all(|(_, imported)| imported != name), "{name} is found at run time");
    }
    assert!(imports.iter().all(|(library, _)| library != "processmodel.dll"));
}

/// A program's file (Microsoft Learn, PE Format), as far as its imports.
struct Image<'a> {
    bytes: &'a [u8],
}

impl Image<'_> {
    fn number<const N: usize>(&self, at: usize) -> u64 {
        let mut eight = [0; 8];
        eight[..N].copy_from_slice(&self.bytes[at..at + N]);
        u64::from_le_bytes(eight)
    }

    fn header(&self) -> usize {
        self.number::<4>(0x3C) as usize
    }

    /// Where in the file an address of the loaded program lies.
    fn place(&self, address: u64) -> usize {
        let header = self.header();
        let sections = header + 24 + self.number::<2>(header + 20) as usize;
        let found = (0..self.number::<2>(header + 6) as usize).find_map(|index| {
            let section = sections + 40 * index;
            let begin = self.number::<4>(section + 12);
            (begin..begin + self.number::<4>(section + 16))
                .contains(&address)
                .then(|| (address - begin + self.number::<4>(section + 20)) as usize)
        });
        found.expect("every address is in a section")
    }

    fn text(&self, address: u64) -> String {
        let bytes = &self.bytes[self.place(address)..];
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap()).into_owned()
    }

    fn imports(&self) -> Vec<(String, String)> {
        // The second directory of the optional header of 64 bits.
        let first = self.place(self.number::<4>(self.header() + 24 + 112 + 8));
        let mut imports = Vec::new();
        for descriptor in (first..).step_by(20).take_while(|at| self.number::<4>(at + 12) != 0) {
            let library = self.text(self.number::<4>(descriptor + 12)).to_lowercase();
            let names = self.number::<4>(descriptor);
            let names = if names == 0 { self.number::<4>(descriptor + 16) } else { names };
            let names = self.place(names);
            for entry in (names..).step_by(8).map(|at| self.number::<8>(at)).take_while(|entry| *entry != 0) {
                let name = match entry >> 63 {
                    0 => self.text(entry + 2),
                    _ => format!("#{}", entry & 0xFFFF),
                };
                imports.push((library.clone(), name));
            }
        }
        imports
    }
}
