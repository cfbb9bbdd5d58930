//! Files that ranks write to, and tags: names with `%r`, `%h`, `%p` and `%g` in them.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::request::Tagging;

/// Of whom a name speaks.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Rank in the world.
    pub rank: u32,
    /// Its host.
    pub host: &'a str,
    /// The number of the host.
    pub number: u32,
}

impl Name<'_> {
    /// The pattern with what it stands for: `%r` the rank, `%h` the host, `%p` its number, `%g` 0 (the number
    /// of the job), `%%` a percent sign.
    pub fn fill(&self, pattern: &str) -> String {
        let mut text = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match (letter, if letter == '%' { letters.next() } else { None }) {
                ('%', Some('r')) => text.push_str(&self.rank.to_string()),
                ('%', Some('h')) => text.push_str(self.host),
                ('%', Some('p')) => text.push_str(&self.number.to_string()),
                ('%', Some('g')) => text.push('0'),
                ('%', Some(other)) => text.push(other),
                _ => text.push(letter),
            }
        }
        text
    }

    /// What comes before each line of output.
    pub fn tag(&self, tagging: &Tagging, stream: &str) -> String {
        let rank = self.rank;
        match tagging {
            Tagging::Plain => String::new(),
            Tagging::Rank => format!("[{rank}] "),
            Tagging::Stream => format!("[{rank}]<{stream}>: "),
            Tagging::Pattern(pattern) => self.fill(pattern),
        }
    }
}

/// Files of a job on one host, each emptied once; who shares one appends.
#[derive(Debug, Default)]
pub struct Files {
    known: HashSet<PathBuf>,
    /// None is emptied.
    appends: bool,
}

impl Files {
    /// Files of a job that goes on: what it has written stays.
    pub fn of_restart() -> Files {
        Files { known: HashSet::new(), appends: true }
    }

    /// Opens a file, with the folders above it.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn open(&mut self, path: &Path) -> io::Result<File> {
        let is_first = self.known.insert(path.to_path_buf());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        // A pipe or a device has no length.
        if is_first && !self.appends && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn names_are_filled_in() {
        let name = Name { rank: 3, host: "n1", number: 1 };
        assert_eq!(name.fill("a%r.%h.%p.%g%%r%"), "a3.n1.1.0%r%");
        assert_eq!(name.tag(&Tagging::Stream, "stderr"), "[3]<stderr>: ");
        assert_eq!(name.tag(&Tagging::Pattern("%h> ".into()), "stdout"), "n1> ");
    }

    #[test]
    fn a_file_is_emptied_once() {
        let path = std::env::temp_dir().join(format!("tutti-files-{}/a/b", std::process::id()));
        for _ in 0..2 {
            let mut files = Files::default();
            for _ in 0..2 {
                files.open(&path).unwrap().write_all(b"x").unwrap();
            }
        }
        assert_eq!(fs::read(&path).unwrap(), b"xx");
        fs::remove_dir_all(path.parent().unwrap().parent().unwrap()).unwrap();
    }
}
