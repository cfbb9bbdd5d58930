//! System calls that turn a fresh process into the process of an image. They are computed only, and tested on
//! a model of an address space.
//!
//! The fresh process has just executed the same program, and has not run an instruction of it. It inherits
//! the open files that it needs, at numbers chosen by the launcher. The order of the plan:
//!
//! 1. Inherited descriptors move above all numbers of the image; all lower ones are closed.
//! 2. The process's own areas are unmapped. Those of the kernel move to their old addresses, by way of free
//!    addresses.
//! 3. The areas of the image are mapped and filled ([`Step::Fill`]).
//! 4. Userfaultfd descriptors are created; bounds and auxiliary vector are set.
//! 5. Descriptors get their numbers.
//! 6. Directory, signals, limits and timers are set.
//!
//! Threads come last ([`of_thread`]). All calls are executed on two mappings in a free gap ([`Workplace`]),
//! which the caller maps and unmaps.

use std::collections::BTreeMap;

use crate::error::CheckpointError;
use crate::image::{Area, Backing, Descriptor, Host, OpenKind, Process, READ, Thread, WRITE};

const PAGE: u64 = 4096;
/// Bytes of the gap for the two mappings.
const GAP: u64 = 1 << 20;
/// Bytes of the page that holds the `syscall` instruction.
pub const CODE_BYTES: u64 = PAGE;
/// Bytes of the mapping that calls read and write.
pub const DATA_BYTES: u64 = 4 * PAGE;
/// Offset in the gap at which the kernel's areas lie until they move to their old addresses.
const WAITING: u64 = 16 * PAGE;
/// Lowest and highest address at which a gap may begin.
const LOWEST: u64 = 1 << 32;
const HIGHEST: u64 = 1 << 46;
const UFFD_USER_MODE_ONLY: u64 = 1;
const UFFD_API: u64 = 0xc018_aa3f;
const UFFD_API_VERSION: u64 = 0xaa;
const UFFD_REGISTER: u64 = 0xc020_aa00;
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;
const PR_SET_PTRACER: u64 = 0x5961_6d61;
const MLOCK_ONFAULT: u64 = 1;
const SIGNAL_SET: u64 = 8;

/// Argument of a system call in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Number that is passed unchanged.
    Number(u64),
    /// Bytes that are copied to the process; the call gets their address. Those of the first such argument of
    /// a call lie at [`Workplace::data`].
    Bytes(Vec<u8>),
    /// Result of an earlier call, counted back from this one: 1 is the call before.
    Result(usize),
}

/// Result that a call must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any result, including a failure, as not all systems need or have the call.
    Any,
    /// Any result except a failure.
    Success,
    /// Exactly this result.
    Exactly(u64),
}

/// System call of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the call and its subject, for messages.
    pub what: String,
    /// Number of the call (syscalls(2)).
    pub number: i64,
    /// Arguments of the call, at most six.
    pub arguments: Vec<Argument>,
    /// Result that the call must have.
    pub expected: Expected,
}

/// Step of a plan, executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Executes a system call in the process.
    Call(Call),
    /// Writes the bytes of memory from the image.
    Fill,
}

/// Gap between areas, in which the pages for calls are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workplace {
    /// First address of the gap, which is that of the `syscall` instruction.
    pub start: u64,
}

impl Workplace {
    /// Finds a gap that is free in both lists of areas; None if there is none.
    pub fn find(image: &[Area], own: &[Area]) -> Option<Workplace> {
        let mut taken: Vec<(u64, u64)> = image.iter().chain(own).map(|area| (area.start, area.end)).collect();
        taken.sort_unstable();
        let mut at = LOWEST;
        for (start, end) in taken {
            if start >= at.saturating_add(2 * GAP) {
                break;
            }
            at = at.max(end.saturating_add(GAP).next_multiple_of(GAP));
        }
        (at < HIGHEST).then_some(Workplace { start: at })
    }

    /// Returns the first address of the mapping that calls read and write.
    pub fn data(self) -> u64 {
        self.start + CODE_BYTES
    }
}

/// Descriptor numbers at which the process inherits open files and objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Numbers of open files, by index in `Host::files`.
    pub files: BTreeMap<u32, i32>,
    /// Numbers of shared objects, by index in `Host::objects`.
    pub objects: BTreeMap<u32, i32>,
}

/// Plan in preparation, with the current descriptor numbers.
struct Planner<'a> {
    steps: Vec<Step>,
    image: &'a Process,
    host: &'a Host,
    /// Numbers of open files and objects after the first phase, by index.
    files: BTreeMap<u32, u64>,
    objects: BTreeMap<u32, u64>,
    base: u64,
    next: u64,
}

/// Returns the steps that turn a process with the areas `own` into the process of `image`.
///
/// # Errors
/// Fails if the kernel maps other code into processes than that of the image.
pub fn plan(
    image: &Process,
    host: &Host,
    own: &[Area],
    inherited: &Inherited,
    workplace: Workplace,
) -> Result<Vec<Step>, CheckpointError> {
    let highest = image.descriptors.iter().map(|descriptor| descriptor.number);
    let highest = highest.chain(inherited.files.values().chain(inherited.objects.values()).copied()).max();
    let base = highest.unwrap_or(2).max(2) as u64 + 1;
    let (files, objects) = (BTreeMap::new(), BTreeMap::new());
    let mut planner = Planner { steps: Vec::new(), image, host, files, objects, base, next: base };
    planner.move_descriptors_up(inherited);
    planner.unmap(own);
    planner.place_kernel_areas(own, workplace)?;
    image.areas.iter().for_each(|area| planner.map(area));
    planner.steps.push(Step::Fill);
    planner.open_own();
    planner.watch_memory();
    planner.set_bounds(workplace);
    planner.number_descriptors();
    planner.set_attributes();
    Ok(planner.steps)
}

use Argument::{Bytes, Number};

/// Directory argument of openat(2). All paths are absolute, so it has no effect.
const HERE: Argument = Number(libc::AT_FDCWD as i64 as u64);

impl Planner<'_> {
    fn call(&mut self, what: impl Into<String>, number: i64, arguments: Vec<Argument>, expected: Expected) {
        self.steps.push(Step::Call(Call { what: what.into(), number, arguments, expected }));
    }

    fn simple(&mut self, what: &str, number: i64, arguments: &[u64]) {
        let arguments = arguments.iter().copied().map(Number).collect();
        self.call(what, number, arguments, Expected::Success);
    }

    /// Adds calls that move inherited descriptors above all numbers of the image, and close all others.
    fn move_descriptors_up(&mut self, inherited: &Inherited) {
        let files = inherited.files.iter().map(|(&index, &number)| (false, index, number));
        let objects = inherited.objects.iter().map(|(&index, &number)| (true, index, number));
        for (is_object, index, number) in files.chain(objects).collect::<Vec<_>>() {
            let target = self.next;
            self.next += 1;
            let arguments = vec![Number(number as u64), Number(libc::F_DUPFD as u64), Number(target)];
            self.call("fcntl", libc::SYS_fcntl, arguments, Expected::Exactly(target));
            let room = if is_object { &mut self.objects } else { &mut self.files };
            room.insert(index, target);
        }
        self.simple("close_range", libc::SYS_close_range, &[0, self.base - 1, 0]);
    }

    fn unmap(&mut self, own: &[Area]) {
        for area in own.iter().filter(|area| !matches!(area.backing, Backing::Kernel(_))) {
            self.simple("munmap", libc::SYS_munmap, &[area.start, area.end - area.start]);
        }
    }

    /// Moves the areas of the kernel: first to free addresses in the gap, then to their old ones.
    fn place_kernel_areas(&mut self, own: &[Area], workplace: Workplace) -> Result<(), CheckpointError> {
        let kernel = |area: &&Area| matches!(area.backing, Backing::Kernel(_));
        let wanted: Vec<&Area> = self.image.areas.iter().filter(kernel).collect();
        let there: Vec<&Area> = own.iter().filter(kernel).collect();
        let mut waiting = workplace.start + WAITING;
        let mut moves = Vec::new();
        for area in &there {
            let target = wanted.iter().find(|target| target.backing == area.backing);
            let bytes = area.end - area.start;
            let Some(target) = target.filter(|target| target.end - target.start == bytes) else {
                return Err(CheckpointError::Changed(
                    "the kernel maps other code into processes here".to_string(),
                ));
            };
            moves.push((area.start, waiting, target.start, bytes));
            waiting += bytes + PAGE;
        }
        if moves.len() != wanted.len() {
            return Err(CheckpointError::Changed(
                "the kernel maps other code into processes here".to_string(),
            ));
        }
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        for &(from, waiting, _, bytes) in &moves {
            let arguments = [from, bytes, bytes, flags, waiting].map(Number).to_vec();
            self.call("mremap", libc::SYS_mremap, arguments, Expected::Exactly(waiting));
        }
        for &(_, waiting, to, bytes) in &moves {
            let arguments = [waiting, bytes, bytes, flags, to].map(Number).to_vec();
            self.call("mremap", libc::SYS_mremap, arguments, Expected::Exactly(to));
        }
        Ok(())
    }

    /// Adds the calls that map an area, with its advice. A file is opened for this and closed again.
    fn map(&mut self, area: &Area) {
        let bytes = area.end - area.start;
        let mut flags = libc::MAP_FIXED_NOREPLACE;
        flags |= if area.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        if area.advice.no_reserve {
            flags |= libc::MAP_NORESERVE;
        }
        if area.advice.grows_down {
            flags |= libc::MAP_GROWSDOWN;
        }
        let mut close = false;
        let descriptor = match &area.backing {
            Backing::Kernel(_) => return,
            Backing::Anonymous => {
                flags |= libc::MAP_ANONYMOUS;
                Number(u64::MAX)
            }
            Backing::Object(object) => Number(self.objects.get(object).copied().unwrap_or(u64::MAX)),
            Backing::File(file) => {
                let writes = area.shared && area.protection & WRITE != 0;
                let mode = if writes { libc::O_RDWR } else { libc::O_RDONLY };
                let what = format!("open of {}", String::from_utf8_lossy(&file.path));
                let arguments = vec![HERE, Bytes(terminated(&file.path)), Number(mode as u64), Number(0)];
                self.call(what, libc::SYS_openat, arguments, Expected::Success);
                close = true;
                Argument::Result(1)
            }
        };
        let what = format!("mmap of {:#x} to {:#x}", area.start, area.end);
        let arguments = vec![
            Number(area.start),
            Number(bytes),
            Number(area.protection.into()),
            Number(flags as u64),
            descriptor,
            Number(area.offset),
        ];
        self.call(what, libc::SYS_mmap, arguments, Expected::Exactly(area.start));
        if close {
            self.call("close", libc::SYS_close, vec![Argument::Result(2)], Expected::Success);
        }
        self.advise(area);
    }

    /// Adds the calls for the advice and locks of an area.
    fn advise(&mut self, area: &Area) {
        let advice = area.advice;
        let kinds = [
            (advice.no_fork, libc::MADV_DONTFORK),
            (advice.wiped_on_fork, libc::MADV_WIPEONFORK),
            (advice.no_dump, libc::MADV_DONTDUMP),
            (advice.huge, libc::MADV_HUGEPAGE),
            (advice.no_huge, libc::MADV_NOHUGEPAGE),
        ];
        let (start, bytes) = (area.start, area.end - area.start);
        for (_, kind) in kinds.into_iter().filter(|(wanted, _)| *wanted) {
            self.simple("madvise", libc::SYS_madvise, &[start, bytes, kind as u64]);
        }
        if advice.locked {
            self.simple("mlock2", libc::SYS_mlock2, &[start, bytes, MLOCK_ONFAULT]);
        }
    }

    /// Opens files of /proc/self, which only the process itself can open.
    fn open_own(&mut self) {
        for descriptor in &self.image.descriptors {
            let file = &self.host.files[descriptor.file as usize];
            let OpenKind::Own(name) = &file.kind else { continue };
            if self.files.contains_key(&descriptor.file) {
                continue;
            }
            let path = [b"/proc/self/", &name[..], &[0]].concat();
            let flags = (file.flags & libc::O_ACCMODE) as u64;
            let arguments = vec![HERE, Bytes(path), Number(flags), Number(0)];
            self.call("open in /proc/self", libc::SYS_openat, arguments, Expected::Success);
            let target = self.move_up();
            self.files.insert(descriptor.file, target);
        }
    }

    /// Moves the descriptor that the last call returned above all others, and returns its new number.
    fn move_up(&mut self) -> u64 {
        let target = self.next;
        self.next += 1;
        let up = vec![Argument::Result(1), Number(target), Number(0)];
        self.call("dup3", libc::SYS_dup3, up, Expected::Exactly(target));
        self.call("close", libc::SYS_close, vec![Argument::Result(2)], Expected::Success);
        target
    }

    /// Adds the calls that create userfaultfd descriptors and register the watched areas.
    fn watch_memory(&mut self) {
        let watchers: Vec<(u32, u64, i32)> = self
            .image
            .descriptors
            .iter()
            .filter_map(|descriptor| {
                let file = &self.host.files[descriptor.file as usize];
                match file.kind {
                    OpenKind::Userfault(features) => Some((descriptor.file, features, file.flags)),
                    _ => None,
                }
            })
            .collect();
        for (file, features, flags) in watchers {
            if self.files.contains_key(&file) {
                continue;
            }
            let kept = (flags & (libc::O_NONBLOCK | libc::O_CLOEXEC)) as u64;
            self.simple("userfaultfd", libc::SYS_userfaultfd, &[kept | UFFD_USER_MODE_ONLY]);
            let target = self.move_up();
            let api = words(&[UFFD_API_VERSION, features, 0]);
            let arguments = vec![Number(target), Number(UFFD_API), Bytes(api)];
            self.call("ioctl(UFFDIO_API)", libc::SYS_ioctl, arguments, Expected::Success);
            for area in self.image.areas.iter().filter(|area| area.advice.watched != 0) {
                let mode = u64::from(area.advice.watched);
                let register = words(&[area.start, area.end - area.start, mode, 0]);
                let arguments = vec![Number(target), Number(UFFD_REGISTER), Bytes(register)];
                self.call("ioctl(UFFDIO_REGISTER)", libc::SYS_ioctl, arguments, Expected::Success);
            }
            self.files.insert(file, target);
        }
    }

    /// Adds the call that sets the bounds of memory and the auxiliary vector.
    fn set_bounds(&mut self, workplace: Workplace) {
        // The call takes struct prctl_mm_map, which contains the address of the auxiliary vector behind it.
        let mut map = words(&self.image.bounds);
        let size = map.len() as u64 + 16;
        map.extend((workplace.data() + size).to_ne_bytes());
        map.extend((self.image.auxiliary.len() as u32).to_ne_bytes());
        map.extend(u32::MAX.to_ne_bytes());
        map.extend(&self.image.auxiliary);
        let arguments = vec![Number(PR_SET_MM), Number(PR_SET_MM_MAP), Bytes(map), Number(size), Number(0)];
        self.call("prctl(PR_SET_MM_MAP)", libc::SYS_prctl, arguments, Expected::Success);
    }

    /// Adds the calls that give descriptors their numbers, close the others, and fill epoll instances.
    fn number_descriptors(&mut self) {
        for &Descriptor { number, closed_on_exec, file } in &self.image.descriptors {
            let Some(&from) = self.files.get(&file) else { continue };
            let flags = if closed_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
            let arguments = [from, number as u64, flags].map(Number).to_vec();
            self.call("dup3", libc::SYS_dup3, arguments, Expected::Exactly(number as u64));
        }
        self.simple("close_range", libc::SYS_close_range, &[self.base, u64::from(u32::MAX), 0]);
        for descriptor in &self.image.descriptors {
            let OpenKind::Poll(watched) = &self.host.files[descriptor.file as usize].kind else { continue };
            for &(number, events, data) in watched {
                let mut event = events.to_ne_bytes().to_vec();
                event.extend(data.to_ne_bytes());
                let arguments = vec![
                    Number(descriptor.number as u64),
                    Number(libc::EPOLL_CTL_ADD as u64),
                    Number(number as u64),
                    Bytes(event),
                ];
                // A second descriptor of the same epoll instance finds its entries present; that failure is
                // ignored.
                self.call("epoll_ctl", libc::SYS_epoll_ctl, arguments, Expected::Any);
            }
        }
    }

    /// Adds the calls for directory, creation mask, signal actions and interval timers.
    fn set_attributes(&mut self) {
        let directory = vec![Bytes(terminated(&self.image.directory))];
        let what = format!("chdir to {}", String::from_utf8_lossy(&self.image.directory));
        self.call(what, libc::SYS_chdir, directory, Expected::Success);
        self.simple("umask", libc::SYS_umask, &[self.image.creation_mask.into()]);
        for handler in &self.image.handlers {
            let arguments = vec![
                Number(handler.signal as u64),
                Bytes(words(&handler.action)),
                Number(0),
                Number(SIGNAL_SET),
            ];
            self.call("rt_sigaction", libc::SYS_rt_sigaction, arguments, Expected::Success);
        }
        // The call exists only in kernels with Yama.
        let anyone = vec![Number(PR_SET_PTRACER), Number(u64::MAX)];
        self.call("prctl(PR_SET_PTRACER)", libc::SYS_prctl, anyone, Expected::Any);
        for (which, timer) in (0..).zip(&self.image.timers) {
            if timer.iter().any(|&word| word != 0) {
                let arguments = vec![Number(which), Bytes(words(timer)), Number(0)];
                self.call("setitimer", libc::SYS_setitimer, arguments, Expected::Success);
            }
        }
    }
}

/// Returns the calls that restore the state of one thread.
pub fn of_thread(thread: &Thread) -> Vec<Call> {
    let call = |what: &str, number, arguments, expected| Call {
        what: what.to_string(),
        number,
        arguments,
        expected,
    };
    let address = vec![Number(thread.cleared_at_end)];
    let mut calls = vec![call("set_tid_address", libc::SYS_set_tid_address, address, Expected::Any)];
    if thread.robust.0 != 0 {
        let arguments = vec![Number(thread.robust.0), Number(thread.robust.1)];
        calls.push(call("set_robust_list", libc::SYS_set_robust_list, arguments, Expected::Success));
    }
    let (address, bytes, signature) = thread.sequences;
    if address != 0 {
        let arguments = vec![Number(address), Number(bytes.into()), Number(0), Number(signature.into())];
        calls.push(call("rseq", libc::SYS_rseq, arguments, Expected::Success));
    }
    let [stack, flags, size] = thread.signal_stack;
    // SS_ONSTACK is reported by the kernel, but cannot be set.
    let stack = words(&[stack, flags & !1, size]);
    calls.push(call("sigaltstack", libc::SYS_sigaltstack, vec![Bytes(stack), Number(0)], Expected::Success));
    let name = vec![Number(libc::PR_SET_NAME as u64), Bytes(terminated(&thread.name))];
    calls.push(call("prctl(PR_SET_NAME)", libc::SYS_prctl, name, Expected::Any));
    calls
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn terminated(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

/// Protection of the mapping that calls read and write.
pub const DATA_PROTECTION: u8 = READ | WRITE;
