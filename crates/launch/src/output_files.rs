//! Output files of ranks, and prefixes of lines: patterns with `%r`, `%h`, `%p` and `%g`.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::request::Tagging;

/// Values that replace the letters of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// Name of the rank's host.
    pub host: &'a str,
    /// Number of the host in the job.
    pub number: u32,
}

impl Name<'_> {
    /// Fills in a pattern. `%r` is the rank, `%h` the host, `%p` the number of the host, `%g` 0 (the number
    /// of the job), and `%%` a percent sign.
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

    /// Returns the prefix of each line of output.
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

/// Output files of a job on one host. Each file is emptied once; ranks that share a file append to it.
#[derive(Debug, Default)]
pub struct Files {
    known: HashSet<PathBuf>,
    /// True if no file is emptied.
    appends: bool,
}

impl Files {
    /// Creates the files of a restarted job, whose earlier output is kept.
    pub fn of_restart() -> Files {
        Files { known: HashSet::new(), appends: true }
    }

    /// Opens a file for appending, and creates its parent folders.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn open(&mut self, path: &Path) -> io::Result<File> {
        let is_first = self.known.insert(path.to_path_buf());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        // Pipes and devices have no length to reset.
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
