//! Tests that all drivers pass. Pieces go to their places and nowhere else, reads end with the file, and
//! acknowledged writes can be read. Random transfers through random views are compared with a model, on each
//! driver and on a device that fails.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tutti_base::ErrorClass;
use tutti_base::config::Protection;
use tutti_core::buffer::Buffer;
use tutti_data::{Datatype, Form, Segment};

use crate::representation::Representation;
use crate::transfer::Transfer;
use crate::view::View;
use tutti_storage::servers::client::{Client, Source};
use tutti_storage::servers::manifest::Wish;
use tutti_storage::servers::mount::{Mode, Mount, Server};
use tutti_storage::servers::process::Process;
use tutti_storage::servers::root::Root;
use tutti_storage::servers::sealed_socket::cover;
use tutti_storage::servers::striped::Striped;
use tutti_storage::{Amode, Driver, Moved, Posix, Simulated};

/// MPI_MODE_RDWR and MPI_MODE_CREATE.
const READ_WRITE_CREATE: i32 = 32 | 2;

/// A file of the system in a directory of its own, which goes with it.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        let path = std::env::temp_dir().join(format!("tutti-io-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Temporary(path)
    }

    fn open(&self) -> Arc<dyn Driver> {
        let amode = Amode::new(READ_WRITE_CREATE).unwrap();
        Arc::new(Posix::open(self.0.as_os_str().as_encoded_bytes(), amode).unwrap())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn all_of(driver: &dyn Driver) -> Vec<u8> {
    let mut bytes = vec![0; driver.bytes().unwrap() as usize];
    let length = bytes.len() as u64;
    let moved = driver.gather(&[Segment { offset: 0, bytes: length }], &mut bytes);
    assert_eq!(moved.result().unwrap(), length);
    bytes
}

fn conforms(driver: &dyn Driver) {
    let pieces: Vec<Segment> =
        (0..3000).map(|piece| Segment { offset: 10 + piece * 12, bytes: 1 + (piece % 7) as u64 }).collect();
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let packed: Vec<u8> = (0..total).map(|byte| (byte % 251) as u8 + 1).collect();
    assert_eq!(driver.scatter(&pieces, &packed).result().unwrap(), total);
    let end = pieces.last().map_or(0, |last| last.offset as u64 + last.bytes);
    assert_eq!(driver.bytes().unwrap(), end);
    let mut model = vec![0; end as usize];
    let mut rest = &packed[..];
    for piece in &pieces {
        let (now, later) = rest.split_at(piece.bytes as usize);
        model[piece.offset as usize..][..now.len()].copy_from_slice(now);
        rest = later;
    }
    assert_eq!(all_of(driver), model, "what was not given was not written");
    let mut back = vec![0; total as usize];
    assert_eq!(driver.gather(&pieces, &mut back).result().unwrap(), total);
    assert_eq!(back, packed);
    // The file ends within the pieces.
    driver.resize(1000).unwrap();
    let there: u64 =
        pieces.iter().map(|piece| 1000u64.saturating_sub(piece.offset as u64).min(piece.bytes)).sum();
    assert_eq!(driver.gather(&pieces, &mut back).result().unwrap(), there);
    driver.allocate(5000).unwrap();
    assert_eq!(driver.bytes().unwrap(), 5000);
    driver.sync().unwrap();
    driver.resize(0).unwrap();
}

#[test]
fn all_drivers_conform() {
    conforms(&Simulated::new(1, u64::MAX, 0));
    let temporary = Temporary::new("conformance");
    conforms(&*temporary.open());
}

/// Returns a view of pieces with these lengths and a gap behind each, repeated.
fn pieces_view(pieces: &[(i64, i64)], displacement: i64) -> View {
    let byte = Datatype::predefined(0x247).unwrap();
    let mut end = 0;
    let (mut lengths, mut places) = (Vec::new(), Vec::new());
    for (piece, gap) in pieces {
        lengths.push(*piece);
        places.push(end);
        end += piece + gap;
    }
    let block = Datatype::create_indexed(&lengths, &places, byte, Form::Int).unwrap();
    let tile = Datatype::create_resized(0, end, &block, Form::Int).unwrap();
    tile.commit();
    View::new(displacement, byte, &tile, Representation::Native, true).unwrap()
}

fn view(piece: i64, gap: i64, displacement: i64) -> View {
    pieces_view(&[(piece, gap)], displacement)
}

fn transfer(driver: &Arc<dyn Driver>, view: &Arc<View>, stream: u64, buffer: Buffer, write: bool) -> Moved {
    Transfer { driver: Arc::clone(driver), view: Arc::clone(view), stream, buffer, write }.run()
}

/// Returns the positions in the file of all bytes in a view's range.
fn places(view: &View, stream: u64, bytes: u64) -> Vec<usize> {
    let mut runs = Vec::new();
    view.runs(stream..stream + bytes, &mut runs, usize::MAX);
    runs.iter().flat_map(|run| run.offset as usize..run.offset as usize + run.bytes as usize).collect()
}

/// Step of a random test: pieces and displacement of the view, position in its stream, number of bytes, and
/// true for a write.
type Step = (Vec<(i64, i64)>, i64, u64, u64, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pieces = proptest::collection::vec((1i64..90, 0i64..90), 1..5);
    proptest::collection::vec((pieces, 0i64..50, 0u64..300, 0u64..3000, any::<bool>()), 1..12)
}

/// Does the steps to a new file and to a model, and compares all that is read.
fn follows_the_model(driver: &Arc<dyn Driver>, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model: Vec<u8> = Vec::new();
    for (number, (pieces, displacement, stream, bytes, write)) in (0u8..).zip(steps) {
        let view = Arc::new(pieces_view(&pieces, displacement));
        let places = places(&view, stream, bytes);
        let data: Vec<u8> = (0..bytes).map(|byte| byte as u8 ^ number).collect();
        if write {
            let moved = transfer(driver, &view, stream, Buffer::owned(data.clone()), true);
            prop_assert_eq!(moved.result().unwrap(), bytes);
            for (place, byte) in places.iter().zip(&data) {
                model.resize(model.len().max(place + 1), 0);
                model[*place] = *byte;
            }
            prop_assert_eq!(&all_of(&**driver), &model);
        } else {
            let buffer = Buffer::owned(vec![0; bytes as usize]);
            let there = transfer(driver, &view, stream, buffer.clone(), false).result().unwrap();
            let expected: Vec<u8> = places.iter().filter_map(|place| model.get(*place).copied()).collect();
            prop_assert_eq!(there, expected.len() as u64);
            prop_assert_eq!(&buffer.to_vec()[..there as usize], &expected[..]);
        }
    }
    Ok(())
}

/// Performs random steps on new files. `fresh` creates each from a number. `PROPTEST_CASES` sets their
/// number, instead of 256.
fn random_transfers(mut fresh: impl FnMut(u64) -> Arc<dyn Driver>) {
    let mut number = 0;
    let mut next = || {
        number += 1;
        fresh(number)
    };
    let cell = std::cell::RefCell::new(&mut next);
    let persistence = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(persistence);
    let result = runner.run(&steps(), |steps| follows_the_model(&(cell.borrow_mut())(), steps));
    result.unwrap_or_else(|error| panic!("{error}\n{runner}"));
}

#[test]
fn random_transfers_in_memory() {
    random_transfers(|_| Arc::new(Simulated::new(1, u64::MAX, 0)));
}

#[test]
fn random_transfers_on_a_file_system() {
    let temporary = Temporary::new("random");
    random_transfers(|_| {
        let driver = temporary.open();
        driver.resize(0).unwrap();
        driver
    });
}

/// Servers of this process, with a directory that goes with them.
struct Servers {
    client: Arc<Client>,
    directory: std::path::PathBuf,
    /// Input pipes of the servers: a server ends when its pipe is closed.
    _lifelines: Vec<std::io::PipeWriter>,
}

impl Servers {
    fn start(mode: Mode, lends: bool) -> Servers {
        let name = format!("tutti-io-servers-{}-{}-{lends}", std::process::id(), mode.name());
        let directory = std::env::temp_dir().join(name);
        let mut mount = Mount::new(mode, 64, 3).unwrap();
        let cover = cover(Protection::Auto);
        let mut lifelines = Vec::new();
        for number in 0..3 {
            let own = if mode == Mode::Forward { 0 } else { number };
            let place = directory.join(own.to_string());
            std::fs::create_dir_all(&place).unwrap();
            let root = Root::new(&place, mode).unwrap();
            let here = std::net::Ipv4Addr::LOCALHOST.into();
            let mut process = Process::new(root, mount.key, cover, here, None).unwrap();
            let address = process.address().unwrap();
            mount.enter(Server { address, name: number.to_string() }).unwrap();
            let (end, lifeline) = std::io::pipe().unwrap();
            lifelines.push(lifeline);
            std::thread::spawn(move || process.serve(Some(&end.into())));
        }
        let client = Arc::new(Client::new(Source::Text(mount.text()), lends, cover).unwrap());
        Servers { client, directory, _lifelines: lifelines }
    }

    fn open(&self, name: &str) -> Arc<dyn Driver> {
        let amode = Amode::new(READ_WRITE_CREATE).unwrap();
        Arc::new(Striped::open(&self.client, name, amode, Wish::default()).unwrap())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn check_servers(mode: Mode, lends: bool) {
    let servers = Servers::start(mode, lends);
    conforms(&*servers.open("conformance"));
    random_transfers(|number| {
        if number > 1 {
            Striped::delete(&servers.client, &format!("random-{}", number - 1)).unwrap();
        }
        servers.open(&format!("random-{number}"))
    });
}

#[test]
fn random_transfers_on_servers_that_are_near() {
    check_servers(Mode::Scratch, true);
    check_servers(Mode::Forward, true);
}

#[test]
fn random_transfers_on_servers_that_are_far() {
    check_servers(Mode::Scratch, false);
    check_servers(Mode::Forward, false);
}

proptest! {
    #[test]
    fn what_is_acknowledged_is_there(seed in any::<u64>(), piece in 1i64..40, gap in 0i64..40, room in 0u64..4000) {
        let device = Arc::new(Simulated::new(seed, room, 200));
        let driver: Arc<dyn Driver> = Arc::<Simulated>::clone(&device);
        let view = Arc::new(view(piece, gap, 3));
        let data: Vec<u8> = (0..2000u32).map(|byte| (byte % 255) as u8 + 1).collect();
        let moved = transfer(&driver, &view, 0, Buffer::owned(data.clone()), true);
        let all = places(&view, 0, data.len() as u64);
        let (bytes, writes) = device.contents();
        for (place, byte) in all.iter().zip(&data).take(moved.bytes as usize) {
            prop_assert_eq!(bytes[*place], *byte);
        }
        // Nothing else was touched, and nothing twice.
        let touched = writes.iter().enumerate().filter(|(_, count)| **count > 0);
        for (place, count) in touched {
            prop_assert!(*count == 1 && all.contains(&place));
        }
        match moved.fault {
            None => prop_assert_eq!(moved.bytes, data.len() as u64),
            Some(fault) => prop_assert!(matches!(fault.class, ErrorClass::NoSpace | ErrorClass::Io)),
        }
    }
}
