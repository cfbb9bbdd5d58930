//! Directory of checkpoint sets: which sets are complete, which may be deleted, and the commit of a new set.
//!
//! ```text
//! D/7.tmp/...     an incomplete set: being written, or abandoned
//! D/7/manifest    complete set: list of files with sizes and hashes, and the data to start the job again
//! D/7/host-0      shared objects of the ranks of a host
//! D/7/rank-0      memory of a rank
//! ```
//! A set becomes complete in one step, at the end of this order:
//!
//! 1. Each host writes and syncs its files.
//! 2. The root writes and syncs the manifest.
//! 3. It syncs the folder, renames it, and syncs the directory.
//!
//! After a crash or on a full disk the set is therefore complete or absent, and earlier sets are unchanged.
//! The newest two sets are kept, and the sets to which they refer.

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

/// Version of all file formats of a checkpoint.
pub const VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"TUTTICKM";
const MANIFEST: &str = "manifest";
/// Number of complete sets that are kept.
const KEPT: usize = 2;
/// Maximum number of older sets to which a set may refer. The next set is then written in full.
const MOST_OLDER: usize = 8;
/// Maximum bytes of a manifest that is read.
const MOST_MANIFEST: u64 = 1 << 30;

/// Description of a complete set, stored in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version ([`VERSION`]) of the Tutti that wrote the set.
    pub version: u32,
    /// Number of the set.
    pub set: u64,
    /// Time of the commit, in seconds since 1970.
    pub written_s: u64,
    /// Kernel and processor of the hosts.
    pub machine: String,
    /// Number of ranks of the job.
    pub ranks: u32,
    /// Number of hosts of the job.
    pub hosts: u32,
    /// Name of the program, for messages.
    pub program: String,
    /// Data from which the launcher starts the job again, in its own format.
    pub job: Vec<u8>,
    /// Identifier of the job.
    pub job_id: u64,
    /// Records of all files of the set.
    pub files: Vec<FileRecord>,
    /// Ends of all connections between hosts.
    pub connections: Vec<ConnectionEnd>,
    /// Position of the job in its standard input.
    pub input: InputRecord,
}

impl Manifest {
    /// Returns the numbers of the older sets to which this one refers.
    pub fn older(&self) -> BTreeSet<u64> {
        self.files.iter().flat_map(|file| file.older.iter().copied()).collect()
    }

    /// Returns the total bytes of the set's files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns true if the next set should be written in full, without references to older ones.
    pub fn has_many_older(&self) -> bool {
        self.older().len() >= MOST_OLDER
    }
}

/// Returns the current time in seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Directory that contains the checkpoint sets of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Creates a new file with a random suffix in its name, so that no other user can have placed a link there.
///
/// # Errors
/// Fails if a system call fails.
pub fn fresh_file(folder: &Path, start: &str) -> io::Result<(PathBuf, File)> {
    let path = folder.join(format!("{start}-{:016x}", tutti_sys::process::random()?));
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((path, file))
}

impl Directory {
    /// Creates the value for a path, without access to the file system. `Directory::prepare` checks it.
    pub fn new(path: &Path) -> Directory {
        Directory(path.to_path_buf())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the directory if it does not exist, and checks that files can be written in it.
    ///
    /// # Errors
    /// Fails if it cannot be created or written, with a text for the user.
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

    /// Checks, before a job starts, whether sets can be written here. A directory that does not exist yet is
    /// created and removed again, so that a job without a checkpoint leaves none.
    ///
    /// # Errors
    /// Fails like [`Directory::prepare`].
    pub fn try_out(&self) -> io::Result<()> {
        let is_there = self.0.symlink_metadata().is_ok();
        let result = self.prepare();
        if !is_there {
            // If another job has put files there meanwhile, the directory stays.
            let _ = fs::remove_dir(&self.0);
        }
        result
    }

    /// Returns the numbers of the sets that have a manifest, newest first.
    ///
    /// # Errors
    /// Fails if the directory does not exist.
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

    /// Returns the folder of a complete set.
    pub fn folder(&self, set: u64) -> PathBuf {
        self.0.join(set.to_string())
    }

    /// Returns the folder of a set that is being written.
    pub fn folder_in_work(&self, set: u64) -> PathBuf {
        self.0.join(format!("{set}.tmp"))
    }

    /// Reads the manifest of a set and checks its hash and version.
    ///
    /// # Errors
    /// Fails if the set is incomplete or damaged, or of another version.
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

    /// Checks that no set here belongs to another job. Such a set would be deleted in time, or restarted by
    /// mistake. `job_id` is None for a new job.
    ///
    /// # Errors
    /// Fails with a text for the user that names the other job.
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

    /// Begins a set: creates its folder and returns its number, which is higher than all others. Deletes
    /// incomplete sets.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn begin(&self) -> io::Result<u64> {
        self.prepare()?;
        let entries = fs::read_dir(&self.0).map_err(|error| named(&self.0, error))?;
        let mut highest = 0;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_suffix(".tmp").unwrap_or(&name).parse().unwrap_or(0);
            highest = highest.max(number);
            // An abandoned set that never became complete.
            if name.ends_with(".tmp") && number > 0 {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let set = highest + 1;
        let folder = self.folder_in_work(set);
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|error| named(&folder, error))?;
        Ok(set)
    }

    /// Completes a set by writing its manifest, and deletes sets that are no longer needed.
    ///
    /// # Errors
    /// Fails if a system call fails; the set then stays incomplete.
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

    /// Returns the highest number of an incomplete set.
    pub fn in_work(&self) -> Option<u64> {
        let entries = fs::read_dir(&self.0).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".tmp")?.parse().ok()).max()
    }

    /// Deletes an incomplete set.
    pub fn give_up(&self, set: u64) {
        let _ = fs::remove_dir_all(self.folder_in_work(set));
    }

    /// Deletes sets that are older than the newest two, unless these refer to them.
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

    /// Commits sets one after the other, each with references to the given older ones. Checks which sets
    /// remain.
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

    /// Checks the error for a directory that contains a set with this manifest.
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
