//! Tests that run plans on a model of an address space and of a descriptor table.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::plan::{Argument, Call, Expected, Inherited, Step, Workplace, plan};
use crate::image::{
    Advice, Area, Backing, Descriptor, FileIdentity, Host, OpenFile, OpenKind, Process, READ, WRITE,
};

/// Model of a process: areas, descriptors and results of calls.
#[derive(Debug, Default)]
struct Model {
    areas: Vec<Area>,
    /// Open file, object or path by descriptor number.
    descriptors: BTreeMap<u64, String>,
    results: Vec<u64>,
    filled: bool,
}

impl Model {
    fn value(&self, argument: &Argument) -> u64 {
        match argument {
            Argument::Number(number) => *number,
            Argument::Bytes(_) => 1 << 50,
            Argument::Result(back) => self.results[self.results.len() - back],
        }
    }

    fn run(&mut self, call: &Call) {
        let argument = |at: usize| call.arguments.get(at).map_or(0, |argument| self.value(argument));
        let arguments: Vec<u64> = (0..6).map(argument).collect();
        let result = self.perform(call, &arguments);
        if let Expected::Exactly(expected) = call.expected {
            assert_eq!(result, expected, "{call:?}");
        }
        self.results.push(result);
    }

    fn perform(&mut self, call: &Call, arguments: &[u64]) -> u64 {
        match call.number {
            libc::SYS_munmap => {
                let end = arguments[0] + arguments[1];
                let before = self.areas.len();
                self.areas.retain(|area| area.start != arguments[0] || area.end != end);
                assert_eq!(self.areas.len() + 1, before, "{call:?} unmaps one area");
                0
            }
            libc::SYS_mremap => {
                let area =
                    self.areas.iter().position(|area| area.start == arguments[0]).expect("it is mapped");
                let mut area = self.areas.remove(area);
                (area.start, area.end) = (arguments[4], arguments[4] + arguments[2]);
                self.insert(area);
                arguments[4]
            }
            libc::SYS_mmap => self.map(arguments),
            libc::SYS_openat => {
                let Argument::Bytes(path) = &call.arguments[1] else { panic!("a path is bytes") };
                let number =
                    (0..).find(|number| !self.descriptors.contains_key(number)).expect("numbers are many");
                let name = String::from_utf8_lossy(&path[..path.len() - 1]).into_owned();
                self.descriptors.insert(number, name);
                number
            }
            libc::SYS_close => {
                assert!(self.descriptors.remove(&arguments[0]).is_some(), "{call:?}");
                0
            }
            libc::SYS_close_range => {
                self.descriptors.retain(|number, _| *number < arguments[0] || *number > arguments[1]);
                0
            }
            libc::SYS_fcntl => {
                let file = self.descriptors[&arguments[0]].clone();
                let number = (arguments[2]..).find(|number| !self.descriptors.contains_key(number));
                let number = number.expect("numbers are many");
                self.descriptors.insert(number, file);
                number
            }
            libc::SYS_dup3 => {
                let file = self.descriptors[&arguments[0]].clone();
                assert_ne!(arguments[0], arguments[1], "dup3 refuses that");
                self.descriptors.insert(arguments[1], file);
                arguments[1]
            }
            libc::SYS_madvise => {
                let area =
                    self.areas.iter_mut().find(|area| area.start == arguments[0]).expect("it is mapped");
                area.advice.no_fork |= arguments[2] == libc::MADV_DONTFORK as u64;
                0
            }
            _ => 0,
        }
    }

    fn map(&mut self, arguments: &[u64]) -> u64 {
        let flags = arguments[3] as i32;
        let backing = match self.descriptors.get(&arguments[4]) {
            Some(name) if flags & libc::MAP_ANONYMOUS == 0 => named(name),
            _ => Backing::Anonymous,
        };
        let advice = Advice {
            grows_down: flags & libc::MAP_GROWSDOWN != 0,
            no_reserve: flags & libc::MAP_NORESERVE != 0,
            ..Advice::default()
        };
        self.insert(Area {
            start: arguments[0],
            end: arguments[0] + arguments[1],
            protection: arguments[2] as u8,
            shared: flags & libc::MAP_SHARED != 0,
            offset: arguments[5],
            backing,
            advice,
        });
        arguments[0]
    }

    fn insert(&mut self, area: Area) {
        let overlaps = self.areas.iter().any(|other| other.start < area.end && area.start < other.end);
        assert!(!overlaps, "{area:?} covers something");
        self.areas.push(area);
        self.areas.sort_by_key(|area| area.start);
    }
}

fn named(name: &str) -> Backing {
    match name.strip_prefix("object ") {
        Some(number) => Backing::Object(number.parse().expect("a number")),
        None => file(name),
    }
}

fn file(name: &str) -> Backing {
    Backing::File(FileIdentity { path: name.as_bytes().to_vec(), bytes: 0, changed_ns: 0 })
}

/// Creates areas one behind the other, from gaps and lengths in pages. Two of them belong to the kernel.
fn areas(from: u64, pieces: &[(u64, u64, u8)]) -> Vec<Area> {
    let mut at = from;
    let mut found = Vec::new();
    for (index, &(gap, pages, kind)) in pieces.iter().enumerate() {
        let start = at + gap * 4096;
        let kernel = |name: &str| Backing::Kernel(name.to_string());
        let backing = match (index, kind % 4) {
            (0, _) => kernel("[vvar]"),
            (1, _) => kernel("[vdso]"),
            (_, 0) => file("/bin/program"),
            (_, 1) => Backing::Object(u32::from(kind) % 2),
            _ => Backing::Anonymous,
        };
        let pages = if index < 2 { 2 } else { pages };
        at = start + pages * 4096;
        let shared = matches!(backing, Backing::Object(_));
        let advice = Advice { no_fork: kind % 8 == 1, grows_down: kind == 6, ..Advice::default() };
        let protection = if index < 2 || kind % 3 == 0 { READ } else { READ | WRITE };
        let (offset, advice) =
            if index < 2 { (0, Advice::default()) } else { (u64::from(kind) * 4096, advice) };
        let offset = if backing == Backing::Anonymous { 0 } else { offset };
        found.push(Area { start, end: at, protection, shared, offset, backing, advice });
    }
    found
}

fn process(areas: Vec<Area>, descriptors: Vec<Descriptor>) -> Process {
    Process {
        rank: 0,
        pid: 1,
        program: FileIdentity { path: b"/bin/program".to_vec(), bytes: 0, changed_ns: 0 },
        arguments: Vec::new(),
        directory: b"/".to_vec(),
        creation_mask: 0,
        most_descriptors: 1024,
        bounds: [0; 11],
        auxiliary: Vec::new(),
        areas,
        threads: Vec::new(),
        handlers: Vec::new(),
        timers: [[0; 4]; 3],
        descriptors,
        table_pages: Vec::new(),
    }
}

fn check(image: Vec<Area>, own: Vec<Area>, numbers: &[i32], inherited: &[i32]) {
    let open = OpenFile { kind: OpenKind::Event(0, false), flags: 0 };
    let host = Host { files: vec![open; numbers.len()], ..Host::default() };
    let descriptors: Vec<Descriptor> = (0..)
        .zip(numbers)
        .map(|(file, &number)| Descriptor { number, closed_on_exec: false, file })
        .collect();
    let image = process(image, descriptors);
    let mut given = Inherited::default();
    let mut model = Model { areas: own.clone(), ..Model::default() };
    for (index, &number) in (0..).zip(inherited) {
        let is_object = index < 2;
        let name = if is_object { format!("object {index}") } else { format!("file {}", index - 2) };
        model.descriptors.insert(number as u64, name);
        if is_object {
            given.objects.insert(index, number);
        } else {
            given.files.insert(index - 2, number);
        }
    }
    let workplace = Workplace::find(&image.areas, &own).expect("addresses are many");
    for step in plan(&image, &host, &own, &given, workplace).expect("the same kernel") {
        match step {
            Step::Call(call) => model.run(&call),
            Step::Fill => {
                assert_eq!(model.areas, image.areas);
                model.filled = true;
            }
        }
    }
    assert!(model.filled);
    assert_eq!(model.areas, image.areas);
    let expected: BTreeMap<u64, String> =
        (0..).zip(numbers).map(|(file, &number)| (number as u64, format!("file {file}"))).collect();
    assert_eq!(model.descriptors, expected);
}

type Pieces = Vec<(u64, u64, u8)>;

fn pieces() -> impl Strategy<Value = Pieces> {
    proptest::collection::vec((0u64..5, 1u64..9, any::<u8>()), 2..20)
}

proptest! {
    /// Runs a plan in a fresh process with arbitrary areas. Afterwards the process has exactly the areas and
    /// descriptors of the image.
    #[test]
    fn a_plan_makes_a_process_into_its_image(
        image in pieces(),
        own in pieces(),
        apart in prop_oneof![Just(0u64), Just(3), Just(1 << 20)],
        numbers in proptest::collection::btree_set(0i32..40, 1..10),
        first in 0i32..30,
    ) {
        let base = 1u64 << 33;
        let numbers: Vec<i32> = numbers.into_iter().collect();
        let inherited: Vec<i32> = (first..first + 2 + numbers.len() as i32).collect();
        check(areas(base, &image), areas(base + apart * 4096, &own), &numbers, &inherited);
    }
}

#[test]
fn another_kernel_is_refused() {
    let image = areas(1 << 33, &[(0, 2, 0), (0, 2, 0), (0, 1, 2)]);
    let mut own = image.clone();
    own[1].end += 4096;
    own.truncate(2);
    let workplace = Workplace::find(&image, &own).unwrap();
    let refused = plan(&process(image, Vec::new()), &Host::default(), &own, &Inherited::default(), workplace);
    assert!(refused.unwrap_err().to_string().contains("kernel"));
}
