//! Tests of the table alone, and of regions in real shared memory.

use std::collections::HashMap;
use std::sync::Barrier;

use tutti_base::BankSizes;

use super::*;
use crate::job::Plan;

fn key(communicator: u64) -> RegionKey {
    RegionKey { communicator, number: 0, lowest: 0 }
}

/// Runs `test` on a table of 16 entries and `granules` granules.
fn check(granules: u32, test: impl FnOnce(&mut Table<'_>)) {
    let (mut index, mut entries, mut counts) = ([0; 32], [EMPTY; 16], Counts::default());
    let mut taken = vec![0; granules.div_ceil(64) as usize];
    let (index, entries) = (&mut index[..], &mut entries[..]);
    test(&mut Table { index, entries, counts: &mut counts, taken: &mut taken, granules });
}

fn wanted(key: RegionKey, members: u32, form: u64) -> Wanted {
    Wanted { key, members, bytes: 1, form, behind: None }
}

/// Opens a region that is not reused, and returns its room.
fn open(table: &mut Table<'_>, key: RegionKey, members: u32, granules: u32) -> Result<u32, Opened> {
    match table.open(&wanted(key, members, 0), granules, |_| false) {
        Opened::Room(grant) => Ok(grant.room),
        other => Err(other),
    }
}

fn close(table: &mut Table<'_>, key: RegionKey) -> Option<(u32, u32)> {
    let entry = table.entry_of(key).expect("it is open");
    table.close(entry, false)
}

#[test]
fn members_meet_and_the_last_one_frees() {
    check(100, |table| {
        assert_eq!(open(table, key(5), 3, 70), Ok(0));
        assert_eq!(open(table, key(6), 1, 30), Ok(70));
        assert_eq!(close(table, key(5)), None);
        assert_eq!(open(table, key(5), 3, 70), Ok(0));
        assert_eq!(open(table, key(5), 3, 71), Err(Opened::Differs));
        assert_eq!(open(table, key(5), 2, 70), Err(Opened::Differs));
        assert_eq!(close(table, key(5)), None);
        assert_eq!(open(table, key(5), 3, 70), Ok(0));
        assert_eq!(close(table, key(5)), Some((0, 70)));
        assert_eq!(table.take(10), None, "not free before its pages are given back");
        table.mark(0, 70);
        assert_eq!(open(table, key(7), 1, 10), Ok(0));
        assert_eq!(open(table, key(8), 1, 60), Ok(10));
    });
}

#[test]
fn a_refusal_is_the_same_for_all_even_when_room_appears() {
    check(10, |table| {
        assert_eq!(open(table, key(1), 1, 10), Ok(0));
        assert_eq!(open(table, key(2), 2, 1), Err(Opened::Refused));
        assert_eq!(close(table, key(1)), Some((0, 10)));
        table.mark(0, 10);
        assert_eq!(open(table, key(2), 2, 1), Err(Opened::Refused));
        assert_eq!(table.counts.used, 0, "all who asked know");
        assert_eq!(open(table, key(3), 2, 11), Err(Opened::Refused));
    });
}

#[test]
fn half_of_the_entries_are_for_refusals() {
    check(100, |table| {
        for communicator in 0..8 {
            assert_eq!(open(table, key(communicator * 8), 1, 1), Ok(communicator as u32));
        }
        for communicator in 100..108 {
            assert_eq!(open(table, key(communicator), 2, 1), Err(Opened::Refused));
        }
        assert_eq!(open(table, key(99), 2, 1), Err(Opened::Ahead), "all entries are in use");
        assert_eq!(open(table, key(103), 2, 1), Err(Opened::Refused));
        assert_eq!(open(table, key(99), 2, 1), Err(Opened::Refused));
    });
}

#[test]
fn nobody_runs_ahead_of_the_one_before() {
    check(100, |table| {
        let behind = |number, behind| Wanted { behind: Some(key(behind)), ..wanted(key(number), 2, 0) };
        assert_eq!(open(table, key(1), 2, 1), Ok(0));
        assert_eq!(table.open(&behind(2, 1), 1, |_| false), Opened::Ahead);
        assert_eq!(open(table, key(1), 2, 1), Ok(0));
        assert!(matches!(table.open(&behind(2, 1), 1, |_| false), Opened::Room(_)));
        assert!(matches!(table.open(&behind(4, 3), 1, |_| false), Opened::Room(_)), "nobody asked for 3");
    });
}

/// One of two members that start persistent operations of one communicator.
#[derive(Default)]
struct Member {
    open: Vec<usize>,
    released: Vec<usize>,
}

impl Member {
    fn open(&mut self, table: &mut Table<'_>, number: u64) -> usize {
        let wanted = wanted(RegionKey { number, ..key(7) }, 2, 5);
        let Opened::Room(grant) = table.open(&wanted, 3, |entry| self.released.contains(&(entry as usize)))
        else {
            panic!("there is room")
        };
        let entry = grant.entry as usize;
        self.released.retain(|one| *one != entry);
        self.open.push(entry);
        entry
    }

    fn release(&mut self, table: &mut Table<'_>) {
        let entry = self.open.pop().expect("one is open");
        assert_eq!(table.release(entry), None);
        self.released.push(entry);
    }

    fn drop_released(&mut self, table: &mut Table<'_>) -> Option<(u32, u32)> {
        let entry = self.released.pop().expect("one was released");
        table.close(entry, true)
    }
}

#[test]
fn what_all_have_released_is_used_again() {
    check(100, |table| {
        let (mut one, mut two) = (Member::default(), Member::default());
        let first = one.open(table, 1);
        one.release(table);
        assert_ne!(one.open(table, 2), first, "the other has not come to it");
        assert_eq!((two.open(table, 1), two.open(table, 2)), (first, one.open[0]));
        (0..2).for_each(|_| two.release(table));
        one.release(table);
        let third = two.open(table, 3);
        assert_eq!(third, one.open(table, 3), "an idle one");
        let fourth = one.open(table, 4);
        assert_ne!(third, fourth);
        assert_eq!((two.open(table, 4), table.counts.used), (fourth, 2));
        (0..2).for_each(|_| one.release(table));
        assert_eq!(one.drop_released(table), None);
        (0..2).for_each(|_| two.release(table));
        assert_eq!(two.open(table, 5), one.open(table, 5), "the one that nobody has dropped");
        assert_eq!(table.counts.used, 2);
        one.release(table);
        two.release(table);
        assert_eq!(one.drop_released(table), None);
        let freed: Vec<_> = (0..2).filter_map(|_| two.drop_released(table)).collect();
        assert_eq!((freed.len(), table.counts.used), (2, 0));
        assert!(table.index.iter().all(|place| *place == 0));
    });
}

#[test]
fn one_that_comes_late_maps_what_it_had_dropped() {
    check(100, |table| {
        let (mut one, mut two) = (Member::default(), Member::default());
        let first = one.open(table, 1);
        two.open(table, 1);
        one.release(table);
        two.release(table);
        assert_eq!(one.open(table, 2), first);
        assert_eq!(two.drop_released(table), None);
        assert_eq!(two.open(table, 2), first);
        assert_eq!(table.entries[first].holders, 2);
        one.release(table);
        two.release(table);
        assert_eq!(table.entries[first].state, SPENT);
        assert_eq!((one.drop_released(table), two.drop_released(table)), (None, Some((0, 3))));
    });
}

/// Compares the table with a map, with keys that share few positions.
#[test]
fn entries_are_found_whatever_was_removed() {
    check(64, |table| {
        let mut model: HashMap<u64, u32> = HashMap::new();
        let mut random = 12345u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let communicator = u64::from((random >> 16) % 12 * 3);
            if let Some(room) = model.remove(&communicator) {
                assert_eq!(close(table, key(communicator)), Some((room, 2)));
                table.mark(room, 2);
            } else if model.len() < 7 {
                let room = open(table, key(communicator), 1, 2).expect("there is room");
                assert!(!model.values().any(|&other| other == room), "a room is given to one");
                model.insert(communicator, room);
            }
            assert!(model.keys().all(|one| table.entry_of(key(*one)).is_some()));
        }
    });
}

fn job(area_bytes: u64) -> Arc<Job> {
    let plan =
        Plan { processors: 2, banks: BankSizes { area_bytes, ..BankSizes::default() }, ..Plan::one_host(1) };
    Arc::new(Job::create(&plan).unwrap())
}

#[test]
fn a_region_is_shared_then_gone() {
    let job = job(10 * GRANULE);
    let again = Arc::new(Job::attach(job.fd().try_clone_to_owned().unwrap()).unwrap());
    for round in 0..30 {
        let one = Region::open(&job, key(round), 2, 3 * GRANULE - 5).unwrap().unwrap();
        let two = Region::open(&again, key(round), 2, 3 * GRANULE - 5).unwrap().unwrap();
        let end = one.mapping().bytes() - 1;
        // SAFETY: both mappings have that length, and nothing else uses them.
        unsafe {
            assert_eq!(two.mapping().base().add(end).read(), 0, "fresh in round {round}");
            one.mapping().base().add(end).write(9);
            drop(one);
            assert_eq!(two.mapping().base().add(end).read(), 9, "still there for the other");
        }
    }
    assert!(Region::open(&job, key(99), 1, 11 * GRANULE).unwrap().is_none());
    assert!(Region::open(&job, key(99), 1, 10 * GRANULE).unwrap().is_some(), "all room is back");
}

#[test]
fn no_area_means_refusal() {
    assert!(Region::open(&job(0), key(1), 1, 1).unwrap().is_none());
}

/// Opens and closes many regions in an area for few, by four members. A refusal is the same for all
/// members, data written by one are seen by the others, and in the end all room is free.
#[test]
fn members_agree_under_stress() {
    const MEMBERS: u32 = 4;
    const ROUNDS: u32 = 400;
    let job = job(5 * GRANULE);
    let refused: Vec<_> = (0..ROUNDS).map(|_| std::sync::atomic::AtomicU32::new(0)).collect();
    let start = Barrier::new(MEMBERS as usize);
    std::thread::scope(|scope| {
        for member in 0..MEMBERS {
            let (job, refused, start) = (&job, &refused, &start);
            scope.spawn(move || {
                start.wait();
                let mut open = Vec::new();
                for round in 0..ROUNDS {
                    match Region::open(job, key(u64::from(round) * 65536), MEMBERS, 2 * GRANULE).unwrap() {
                        None => {
                            refused[round as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        Some(region) => {
                            // SAFETY: each member writes a byte of its own.
                            let before = unsafe {
                                let byte = region.mapping().base().add(member as usize);
                                let before = byte.read();
                                byte.write(1);
                                before
                            };
                            assert_eq!(before, 0, "pages of an earlier region");
                            open.push(region);
                        }
                    }
                    if round % (3 + member) == 0 {
                        open.clear();
                    }
                }
            });
        }
    });
    for count in refused {
        let count = count.into_inner();
        assert!(count == 0 || count == MEMBERS, "{count} of {MEMBERS} were refused");
    }
    assert!(Region::open(&job, key(1), 1, 5 * GRANULE).unwrap().is_some(), "all room is back");
}
