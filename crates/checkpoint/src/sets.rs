//! A directory of sets: what is whole, what may be deleted, how a set becomes whole.
//!
//! ```text
//! D/7.tmp/...     a set that is being written, or was when something ended it
//! D/7/manifest    a whole one: all files, their bytes and hashes, and what is needed to start the job again
//! D/7/host-0      what the ranks of a host share
//! D/7/rank-0      the memory of a rank
//! ```
//! A set becomes whole in one step: its files are written and synced by those who have them, the manifest is
//! written and synced, the folder is synced and renamed, and the directory is synced. So whatever is killed
//! or full, there is a whole set or there is none, and the ones before it are untouched. The newest two are
//! kept, and what they refer to.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::image::ConnectionEnd;
use crate::image::blocks::FileRecord;
use crate::input::InputRecord;

/// Version of all formats.
pub const VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"TUTTICKM";
const MANIFEST: &str = "manifest";
/// Whole sets that are kept.
const KEPT: usize = 2;
/// Sets that one may refer to before it is written in full.
const MOST_OLDER: usize = 8;
/// Longest manifest that is believed.
const MOST_MANIFEST: u64 = 1 << 30;

/// What a whole set says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`VERSION`] of who wrote it.
    pub version: u32,
    /// Number of the set.
    pub set: u64,
    /// When, in seconds since 1970.
    pub written_s: u64,
    /// Kernel and processor.
    pub machine: String,
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: u32,
    /// The program, for people.
    pub program: String,
    /// What the launcher needs to start the job again.
    pub job: Vec<u8>,
    /// Number of the job.
    pub job_id: u64,
    /// All files.
    pub files: Vec<FileRecord>,
    /// The ends of all connections between hosts.
    pub connections: Vec<ConnectionEnd>,
    /// Position of the job in its standard input.
    pub input: InputRecord,
}

impl Manifest {
    /// The sets that this one refers to.
    pub fn older(&self) -> BTreeSet<u64> {
        self.files.iter().flat_map(|file| file.older.iter().copied()).collect()
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether the next one should refer to no older one.
    pub fn has_many_older(&self) -> bool {
        self.older().len() >= MOST_OLDER
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A directory of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes a file that was not there, under a name that nobody can have taken with a link.
///
/// # Errors
/// What the system reports.
pub fn fresh_file(folder: &Path, start: &str) -> io::Result<(PathBuf, File)> {
    let path = folder.join(format!("{start}-{:016x}", tutti_sys::process::random()?));
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((path, file))
}

impl Directory {
    /// A directory; see [`Directory::check`].
    pub fn new(path: &Path) -> Directory {
        Directory(path.to_path_buf())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it if it is not there, and makes sure that it can be written.
    ///
    /// # Errors
    /// What stands in the way, for the user.
    pub fn prepare(&self) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(named(&self.0, error)),
            _ => {}
        }
        let probed = || {
            let (probe, mut file) = fresh_file(&self.0, ".probe")?;
            let written = file.write_all(b"?");
            fs::remove_file(probe).and(written)
        };
        probed().map_err(|error| named(&self.0, error))
    }

    /// Finds out before a job starts whether sets could be written here. A directory that is not there yet is
    /// made and removed again: a job that writes no checkpoint leaves none.
    ///
    /// # Errors
    /// As [`Directory::prepare`].
    pub fn try_out(&self) -> io::Result<()> {
        let is_there = self.0.symlink_metadata().is_ok();
        let result = self.prepare();
        if !is_there {
            // Of a directory that another job has begun to use meanwhile nothing is removed.
            let _ = fs::remove_dir(&self.0);
        }
        result
    }

    /// The numbers of the sets that have a manifest, newest first.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut found: Vec<u64> = fs::read_dir(&self.0)
            .map_err(|error| named(&self.0, error))?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|set: &u64| self.folder(*set).join(MANIFEST).exists())
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        Ok(found)
    }

    /// The folder of a whole set.
    pub fn folder(&self, set: u64) -> PathBuf {
        self.0.join(set.to_string())
    }

    /// The folder of a set that is being written.
    pub fn folder_in_work(&self, set: u64) -> PathBuf {
        self.0.join(format!("{set}.tmp"))
    }

    /// Reads the manifest of a set.
    ///
    /// # Errors
    /// If it is not whole.
    pub fn manifest(&self, set: u64) -> io::Result<Manifest> {
        let path = self.folder(set).join(MANIFEST);
        let damaged = |what: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
        };
        let length = fs::metadata(&path).map_err(|error| named(&path, error))?.len();
        if !(24..=MOST_MANIFEST).contains(&length) {
            return Err(damaged("it is not as long as one"));
        }
        let bytes = fs::read(&path).map_err(|error| named(&path, error))?;
        let (head, rest) = bytes.split_at(8);
        let (body, hash) = rest.split_at(rest.len() - 16);
        if head != MAGIC || xxh3_128(body).to_le_bytes() != *hash {
            return Err(damaged("it is not what was written"));
        }
        let version = postcard::take_from_bytes::<u32>(body).map(|(version, _)| version);
        if version != Ok(VERSION) {
            let what = format!(
                "{} was written by another version of Tutti, whose checkpoints this one cannot read",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        postcard::from_bytes(body).map_err(|_| damaged("it cannot be read"))
    }

    /// Makes sure that no set here is another job's, which would be deleted in time, or gone on from by
    /// mistake. `job_id` is the job, unless it is a new one.
    ///
    /// # Errors
    /// Whose set is here, for the user.
    pub fn check_owner(&self, job_id: Option<u64>) -> io::Result<()> {
        let sets = self.numbers().unwrap_or_default();
        let foreign = sets.iter().filter_map(|set| self.manifest(*set).ok());
        let Some(found) = foreign.into_iter().find(|manifest| Some(manifest.job_id) != job_id) else {
            return Ok(());
        };
        let (path, Manifest { set, ranks, program, .. }) = (self.0.display(), found);
        let what = format!(
            "{path} has checkpoints of another job (set {set}: {program}, {ranks} ranks): \
             mpirun --restart {path} goes on with it; name another directory, or delete it"
        );
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }

    /// Begins a set: a folder of its own, with a number above all that there are; returns the number.
    ///
    /// # Errors
    /// What the system reports.
    pub fn begin(&self) -> io::Result<u64> {
        self.prepare()?;
        let entries = fs::read_dir(&self.0).map_err(|error| named(&self.0, error))?;
        let mut highest = 0;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_suffix(".tmp").unwrap_or(&name).parse().unwrap_or(0);
            highest = highest.max(number);
            // What another has left, which never became whole.
            if name.ends_with(".tmp") && number > 0 {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let set = highest + 1;
        let folder = self.folder_in_work(set);
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|error| named(&folder, error))?;
        Ok(set)
    }

    /// Makes a set whole, and deletes what is not needed any more.
    ///
    /// # Errors
    /// What the system reports; then there is no such set.
    pub fn commit(&self, manifest: &Manifest) -> io::Result<()> {
        let work = self.folder_in_work(manifest.set);
        let path = work.join(MANIFEST);
        let body = postcard::to_stdvec(manifest).map_err(io::Error::other)?;
        let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(
            |mut file| {
                file.write_all(MAGIC)?;
                file.write_all(&body)?;
                file.write_all(&xxh3_128(&body).to_le_bytes())?;
                file.sync_all()
            },
        );
        written.map_err(|error| named(&path, error))?;
        let whole = self.folder(manifest.set);
        File::open(&work).and_then(|folder| folder.sync_all()).map_err(|error| named(&work, error))?;
        fs::rename(&work, &whole).map_err(|error| named(&whole, error))?;
        File::open(&self.0).and_then(|folder| folder.sync_all()).map_err(|error| named(&self.0, error))?;
        self.delete_old();
        Ok(())
    }

    /// The highest set that is not whole.
    pub fn in_work(&self) -> Option<u64> {
        let entries = fs::read_dir(&self.0).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".tmp")?.parse().ok()).max()
    }

    /// Gives up a set that is not whole.
    pub fn give_up(&self, set: u64) {
        let _ = fs::remove_dir_all(self.folder_in_work(set));
    }

    fn delete_old(&self) {
        let Ok(numbers) = self.numbers() else { return };
        let whole: Vec<Manifest> =
            numbers.iter().filter_map(|set| self.manifest(*set).ok()).take(KEPT).collect();
        if whole.len() < KEPT {
            return;
        }
        let mut needed: BTreeSet<u64> = whole.iter().map(|manifest| manifest.set).collect();
        needed.extend(whole.iter().flat_map(Manifest::older));
        let oldest_kept = whole.iter().map(|manifest| manifest.set).min().unwrap_or(0);
        for set in numbers.into_iter().filter(|set| !needed.contains(set) && *set < oldest_kept) {
            let _ = fs::remove_dir_all(self.folder(set));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Temporary(Directory);

    impl Temporary {
        fn new(name: &str) -> Temporary {
            let path = std::env::temp_dir().join(format!("tutti-sets-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Temporary(Directory::new(&path))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.path());
        }
    }

    fn manifest(set: u64, older: &[u64]) -> Manifest {
        let file = FileRecord {
            name: "rank-0".to_string(),
            rank: Some(0),
            host: 0,
            bytes: 1,
            content: 1,
            hash: 1,
            older: older.to_vec(),
        };
        Manifest {
            version: VERSION,
            set,
            written_s: 1,
            machine: String::new(),
            ranks: 1,
            hosts: 1,
            program: String::new(),
            job: vec![1, 2],
            job_id: 3,
            files: vec![file],
            connections: Vec::new(),
            input: InputRecord::default(),
        }
    }

    /// Sets that are made one after the other, with what each refers to; what is there in the end.
    fn check(older: &[&[u64]], expected: &[u64]) {
        let directory = Temporary::new(&format!("kept-{}", older.len()));
        for older in older {
            let set = directory.0.begin().unwrap();
            directory.0.commit(&manifest(set, older)).unwrap();
            assert_eq!(directory.0.manifest(set).unwrap(), manifest(set, older));
        }
        assert_eq!(directory.0.numbers().unwrap(), expected);
    }

    #[test]
    fn two_sets_are_kept_and_what_they_refer_to() {
        check(&[&[]], &[1]);
        check(&[&[], &[]], &[2, 1]);
        check(&[&[], &[], &[]], &[3, 2]);
        check(&[&[], &[1], &[1], &[1, 3]], &[4, 3, 1]);
        check(&[&[], &[1], &[1], &[], &[4]], &[5, 4]);
    }

    #[test]
    fn what_never_became_whole_is_no_set() {
        let directory = Temporary::new("halves");
        let first = directory.0.begin().unwrap();
        fs::write(directory.0.folder_in_work(first).join("rank-0"), b"half").unwrap();
        assert!(directory.0.numbers().unwrap().is_empty());
        let second = directory.0.begin().unwrap();
        assert!(second > first && !directory.0.folder_in_work(first).exists());
        directory.0.give_up(second);
        assert!(directory.0.numbers().unwrap().is_empty());
    }

    #[test]
    fn any_flipped_byte_of_a_manifest_is_found() {
        let directory = Temporary::new("flipped");
        let set = directory.0.begin().unwrap();
        directory.0.commit(&manifest(set, &[])).unwrap();
        let path = directory.0.folder(set).join(MANIFEST);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let error = directory.0.manifest(set).expect_err("a byte differs");
            assert!(error.to_string().contains("manifest"), "{error}");
        }
    }

    /// What is said of a directory with a set of this manifest.
    fn check_refused(name: &str, of: Manifest, expected: &str) {
        let directory = Temporary::new(name);
        let set = directory.0.begin().unwrap();
        directory.0.commit(&Manifest { set, ..of }).unwrap();
        let read = directory.0.manifest(set).map(|_| ()).and_then(|()| directory.0.check_owner(Some(3)));
        let said = read.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }

    #[test]
    fn a_set_of_another_job_or_version_is_refused() {
        check_refused("own", manifest(1, &[]), "");
        let other = Manifest { job_id: 4, program: "./other".to_string(), ..manifest(1, &[]) };
        check_refused("other", other, "has checkpoints of another job (set 1: ./other, 1 ranks)");
        let later = Manifest { version: VERSION + 1, ..manifest(1, &[]) };
        check_refused("later", later, "was written by another version of Tutti");
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let directory = Directory::new(Path::new("/no/such/place/at/all"));
        assert!(directory.prepare().unwrap_err().to_string().contains("/no/such/place"));
        assert!(directory.numbers().is_err());
    }
}
