//! Redirection of the program's calls of C library functions to functions of this library.
//!
//! A library that is loaded at run time (mpi4py, a plug-in) cannot replace functions by exporting their
//! names: the names were bound before. Instead, the tables through which the objects of this process call
//! other objects (global offset tables) are changed. An entry that leads, or would lead, to the C library's
//! function leads to the replacement from then on. Code is not changed. Entries that lead elsewhere stay as
//! well (another library replaces the same function).
//!
//! Objects that are loaded later are found by [`renew`]. The replacements of dlopen and dlmopen only record
//! that there may be new objects ([`crate::device`]). They jump to the original, because the loader
//! inspects its caller. The replacement of dlsym returns replacements too. System calls that the program
//! makes by `syscall` go to the handler of [`watch`] if they are watched.
//!
//! # Safety
//! Each replacement has the type of the function that it replaces. Entries are words that the loader has
//! written. They are replaced by a single store, so that other threads call either function.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// C library function and its replacement.
#[derive(Debug)]
pub struct Replacement {
    /// Name of both functions.
    pub name: &'static CStr,
    /// Address of the replacement.
    pub by: fn() -> usize,
    /// Address of the C library's function, once it is looked up; 0 if there is none.
    pub real: &'static AtomicUsize,
}

/// Installed replacements, and the state of the last search for objects.
struct Installed {
    table: Table,
    /// Number of objects loaded so far, as counted by the loader.
    loads: u64,
}

/// List of lists of replacements.
type Table = &'static [&'static [Replacement]];

static INSTALLED: Mutex<Installed> = Mutex::new(Installed { table: &[], loads: 0 });
/// Redirects calls of these functions to their replacements, in all loaded objects. Only the first call has
/// an effect.
pub fn install(table: Table) {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !installed.table.is_empty() {
        return;
    }
    // SAFETY: looks up names in libraries that stay loaded.
    unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        for one in table.iter().copied().flatten().filter(|_| !library.is_null()) {
            one.real.store(libc::dlsym(library, one.name.as_ptr()).expose_provenance(), Ordering::Release);
        }
    }
    installed.table = table;
    installed.loads = look(table, u64::MAX);
}

/// Redirects calls in objects that were loaded since the last call. Returns true if there were any.
pub fn renew() -> bool {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = installed.loads;
    if !installed.table.is_empty() {
        installed.loads = look(installed.table, before);
    }
    installed.loads != before
}

/// Calls `work` with the file name and the code of every object whose calls are redirected.
pub fn each_object(mut work: impl FnMut(&[u8], &[u8])) {
    let table = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner).table;
    let mut visit: Visit<'_> = &mut |object| {
        if !object.is_left_alone(table) {
            object.code().for_each(|code| work(object.file(), code));
        }
    };
    // SAFETY: `visit_code` receives a pointer to `visit`, as it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit_code), (&raw mut visit).cast()) };
}

/// Action that is applied to an object.
type Visit<'a> = &'a mut dyn FnMut(&Object<'_>);

unsafe extern "C" fn visit_code(info: *mut libc::dl_phdr_info, _: libc::size_t, data: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that stays loaded while this runs; the data are those of
    // `each_object`.
    let (info, visit) = unsafe { (&*info, &mut *data.cast::<Visit<'_>>()) };
    // SAFETY: as above.
    if let Some(object) = unsafe { Object::new(info) } {
        visit(&object);
    }
    0
}

/// Input and result of a walk over the loaded objects.
struct Walk {
    table: Table,
    /// Number of loads seen before. Nothing is done if it has not grown.
    seen: u64,
    loads: u64,
}

/// Changes the tables of all objects, unless no more than `seen` objects were ever loaded. Returns that
/// number.
fn look(table: Table, seen: u64) -> u64 {
    let mut walk = Walk { table, seen, loads: seen };
    // SAFETY: `visit` receives a pointer to a `Walk`, as it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
    walk.loads
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: libc::size_t, data: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that stays loaded while this runs; the data are those of `look`.
    let (info, walk) = unsafe { (&*info, &mut *data.cast::<Walk>()) };
    walk.loads = info.dlpi_adds;
    if info.dlpi_adds == walk.seen {
        return 1;
    }
    // SAFETY: as above.
    if let Some(object) = unsafe { Object::new(info) }
        && !object.is_left_alone(walk.table)
    {
        // SAFETY: as above.
        unsafe { object.replace(walk.table) };
    }
    0
}

/// Object that the dynamic loader has mapped: the program or a library.
struct Object<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
    name: &'a [u8],
}

/// Parts of an object's dynamic section that name the functions it calls.
#[derive(Default)]
struct Dynamic {
    symbols: usize,
    strings: usize,
    /// Address and length in bytes of the two lists of relocations.
    lists: [(usize, usize); 2],
}

/// Relocation with an addend (Elf64_Rela).
#[derive(Clone, Copy)]
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_PLTRELSZ: i64 = 2;
const DT_JMPREL: i64 = 23;
const PAGE: usize = 4096;

/// Types of relocations whose word is the address of a symbol: in a table of functions, of a variable, or
/// in data.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [7, 6, 1];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [1026, 1025, 257];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ADDRESSES: [u32; 0] = [];

impl<'a> Object<'a> {
    /// # Safety
    /// The loader's description of an object that stays loaded.
    unsafe fn new(info: &'a libc::dl_phdr_info) -> Option<Object<'a>> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; the name is terminated.
        unsafe {
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
            Some(Object { base: info.dlpi_addr as usize, headers, name: name.to_bytes() })
        }
    }

    /// Returns the last part of the object's path; empty for the program.
    fn file(&self) -> &[u8] {
        self.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    fn segments(&self, kind: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
        let wanted = self.headers.iter().filter(move |header| header.p_type == kind);
        wanted.map(|header| (self.base + header.p_vaddr as usize, header.p_memsz as usize))
    }

    /// Returns the segments of code, which are mapped as long as the object is loaded.
    fn code(&self) -> impl Iterator<Item = &[u8]> {
        let is_code = |header: &&libc::Elf64_Phdr| {
            let rights = libc::PF_R | libc::PF_X;
            header.p_type == libc::PT_LOAD && header.p_flags & rights == rights
        };
        self.headers.iter().filter(is_code).map(|header| {
            let start: *const u8 = std::ptr::with_exposed_provenance(self.base + header.p_vaddr as usize);
            // SAFETY: the loader has mapped so many bytes of the file there, to be read.
            unsafe { std::slice::from_raw_parts(start, header.p_filesz as usize) }
        })
    }

    fn holds(&self, address: usize) -> bool {
        self.segments(libc::PT_LOAD).any(|(start, bytes)| (start..start + bytes).contains(&address))
    }

    /// Returns true for the C library, its parts and this library: their calls are not redirected.
    fn is_left_alone(&self, table: Table) -> bool {
        const PARTS: [&[u8]; 5] = [b"ld-linux", b"libpthread.so", b"libdl.so", b"librt.so", b"linux-vdso"];
        let is_real = |one: &Replacement| match one.real.load(Ordering::Relaxed) {
            0 => false,
            real => self.holds(real),
        };
        PARTS.iter().any(|part| self.file().starts_with(part))
            || self.holds(install as fn(Table) as *const () as usize)
            || table.iter().copied().flatten().any(is_real)
    }

    /// # Safety
    /// The object stays loaded.
    unsafe fn dynamic(&self) -> Option<Dynamic> {
        let (start, bytes) = self.segments(libc::PT_DYNAMIC).next()?;
        let entries: *const [i64; 2] = std::ptr::with_exposed_provenance(start);
        let mut found = Dynamic::default();
        // Some loaders store absolute addresses, others the offsets of the file.
        let address = |value: i64| {
            let value = value as usize;
            if value < self.base { value + self.base } else { value }
        };
        for index in 0..bytes / size_of::<[i64; 2]>() {
            // SAFETY: inside the object's dynamic section.
            let [tag, value] = unsafe { entries.add(index).read() };
            match tag {
                0 => break,
                DT_SYMTAB => found.symbols = address(value),
                DT_STRTAB => found.strings = address(value),
                DT_RELA => found.lists[0].0 = address(value),
                DT_RELASZ => found.lists[0].1 = value as usize,
                DT_JMPREL => found.lists[1].0 = address(value),
                DT_PLTRELSZ => found.lists[1].1 = value as usize,
                _ => {}
            }
        }
        (found.symbols != 0 && found.strings != 0).then_some(found)
    }

    /// # Safety
    /// As [`Object::dynamic`].
    unsafe fn replace(&self, table: Table) {
        // SAFETY: the caller's promise, here and below.
        let Some(dynamic) = (unsafe { self.dynamic() }) else { return };
        for (start, bytes) in dynamic.lists.iter().copied().filter(|&(start, _)| start != 0) {
            let list: *const Relocation = std::ptr::with_exposed_provenance(start);
            for index in 0..bytes / size_of::<Relocation>() {
                // SAFETY: inside the list.
                let relocation = unsafe { list.add(index).read() };
                if !ADDRESSES.contains(&(relocation.info as u32)) {
                    continue;
                }
                // SAFETY: a symbol of the object.
                let import = unsafe { dynamic.import((relocation.info >> 32) as usize, table) };
                if let Some(one) = import {
                    // SAFETY: a word of the object that holds the address of a function.
                    unsafe { self.lead(self.base + relocation.offset as usize, one) };
                }
            }
        }
    }

    /// # Safety
    /// `word` is one of the object that holds the address of the function.
    unsafe fn lead(&self, word: usize, one: &Replacement) {
        let entry: *mut usize = std::ptr::with_exposed_provenance_mut(word);
        // SAFETY: the caller's promise; the loader may store to it at the same time.
        let entry = unsafe { AtomicUsize::from_ptr(entry) };
        let (now, real) = (entry.load(Ordering::Relaxed), one.real.load(Ordering::Relaxed));
        // An entry that is not bound yet leads to code of the object itself, which binds it.
        let is_unbound = self.holds(now);
        if real == 0 || !(now == real || is_unbound) {
            return;
        }
        let is_protected = |(start, bytes): (usize, usize)| {
            (start / PAGE * PAGE..(start + bytes).next_multiple_of(PAGE)).contains(&word)
        };
        let protected = self.segments(libc::PT_GNU_RELRO).any(is_protected);
        let page: *mut c_void = std::ptr::with_exposed_provenance_mut(word / PAGE * PAGE);
        // SAFETY: a page of this object, whose access rights are restored as the loader left them.
        let may = |bits| unsafe { libc::mprotect(page, PAGE, bits) } == 0;
        if protected && !may(libc::PROT_READ | libc::PROT_WRITE) {
            return;
        }
        entry.store((one.by)(), Ordering::Release);
        if protected && !self.is_writable_beside(word) {
            may(libc::PROT_READ);
        }
    }

    /// Returns true if the protected range covers the page of `word` only partly. The loader leaves such a
    /// page writable.
    fn is_writable_beside(&self, word: usize) -> bool {
        // The loader protects whole pages only.
        let page = word / PAGE * PAGE;
        !self
            .segments(libc::PT_GNU_RELRO)
            .any(|(start, bytes)| start / PAGE * PAGE <= page && page + PAGE <= (start + bytes) / PAGE * PAGE)
    }
}

impl Dynamic {
    /// Returns the replacement of an imported symbol, if it has one.
    ///
    /// # Safety
    /// The object stays loaded, and has so many symbols.
    unsafe fn import(&self, number: usize, table: Table) -> Option<&'static Replacement> {
        let symbols: *const libc::Elf64_Sym = std::ptr::with_exposed_provenance(self.symbols);
        let strings: *const c_char = std::ptr::with_exposed_provenance(self.strings);
        // SAFETY: the caller's promise; names are terminated.
        unsafe {
            let symbol = symbols.add(number).read();
            let name = strings.add(symbol.st_name as usize);
            // Large programs have a hundred thousand symbols. The first two characters reject nearly all of
            // them.
            let is_like = |one: &&Replacement| {
                let wanted = one.name.as_ptr();
                *name == *wanted && *name != 0 && *name.add(1) == *wanted.add(1)
            };
            let mut alike = table.iter().copied().flatten().filter(is_like);
            (symbol.st_shndx == 0).then(|| alike.find(|one| one.name == CStr::from_ptr(name))).flatten()
        }
    }
}

/// Returns the address of the replacement of a function that the program looks up by dlsym, or 0 if there
/// is none.
extern "C" fn found(handle: *mut c_void, name: *const c_char) -> usize {
    if name.is_null() {
        return 0;
    }
    // SAFETY: a terminated name, as dlsym wants it.
    let name = unsafe { CStr::from_ptr(name) };
    let table: Table = INSTALLED.try_lock().map_or(&[], |installed| installed.table);
    let Some(one) = find(table, name) else { return 0 };
    let real = one.real.load(Ordering::Relaxed);
    // SAFETY: looks up a name. RTLD_NEXT depends on the calling object, so it cannot be evaluated here.
    let is_real = handle == libc::RTLD_NEXT || unsafe { libc::dlsym(handle, name.as_ptr()) }.addr() == real;
    if real != 0 && is_real { (one.by)() } else { 0 }
}

fn find(table: Table, name: &CStr) -> Option<&'static Replacement> {
    table.iter().copied().flatten().find(|one| one.name == name)
}

/// Handler that is called in place of `syscall` for watched calls. Its arguments are the number and six
/// arguments of the call.
pub type CallHandler = extern "C" fn(i64, u64, u64, u64, u64, u64, u64) -> i64;

static DLOPEN: AtomicUsize = AtomicUsize::new(0);
static DLMOPEN: AtomicUsize = AtomicUsize::new(0);
static DLSYM: AtomicUsize = AtomicUsize::new(0);
static SYSCALL: AtomicUsize = AtomicUsize::new(0);
static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// One bit for each system call: set if it goes to the handler.
static WATCHED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
const WORDS: usize = 8;

/// Replacements that detect objects loaded later.
pub static LOADING: [Replacement; 3] = [
    Replacement { name: c"dlopen", by: || jumps::dlopen as *const () as usize, real: &DLOPEN },
    Replacement { name: c"dlmopen", by: || jumps::dlmopen as *const () as usize, real: &DLMOPEN },
    Replacement { name: c"dlsym", by: || jumps::dlsym as *const () as usize, real: &DLSYM },
];
/// Returns the address of the replacement of `syscall`; see [`watch`].
pub fn jump_of_calls() -> *const () {
    jumps::syscall as *const ()
}

/// Returns the variable that holds the address of the C library's `syscall`.
pub const fn real_of_calls() -> &'static AtomicUsize {
    &SYSCALL
}

/// Sends these system calls, if made by `syscall`, to `handler`. Must be called before the replacement is
/// installed.
pub fn watch(numbers: &[i64], handler: CallHandler) {
    HANDLER.store(handler as *const () as usize, Ordering::Release);
    for &number in numbers {
        if let Some(word) = WATCHED.get(number as usize / 64) {
            word.fetch_or(1 << (number % 64), Ordering::Release);
        }
    }
}

/// Functions that pass the call on by a jump with all arguments unchanged, so that the target sees the
/// program as its caller.
#[cfg(target_arch = "x86_64")]
mod jumps {
    use std::arch::naked_asm;

    use super::{DLMOPEN, DLOPEN, DLSYM, HANDLER, SYSCALL, WATCHED, WORDS, found};
    use crate::device::CHECKED_UP_TO;

    #[unsafe(naked)]
    pub(super) extern "C" fn dlopen() {
        naked_asm!(
            "mov qword ptr [rip + {checked}], -1",
            "jmp qword ptr [rip + {real}]",
            checked = sym CHECKED_UP_TO,
            real = sym DLOPEN,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn dlmopen() {
        naked_asm!(
            "mov qword ptr [rip + {checked}], -1",
            "jmp qword ptr [rip + {real}]",
            checked = sym CHECKED_UP_TO,
            real = sym DLMOPEN,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn dlsym() {
        naked_asm!(
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            "call {found}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jnz 2f",
            "jmp qword ptr [rip + {real}]",
            "2:",
            "ret",
            found = sym found,
            real = sym DLSYM,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn syscall() {
        naked_asm!(
            "cmp rdi, {most}",
            "jae 2f",
            "lea rax, [rip + {watched}]",
            "bt qword ptr [rax], rdi",
            "jc 3f",
            "2:",
            "jmp qword ptr [rip + {real}]",
            "3:",
            "jmp qword ptr [rip + {handler}]",
            most = const 64 * WORDS,
            watched = sym WATCHED,
            real = sym SYSCALL,
            handler = sym HANDLER,
        )
    }
}

#[cfg(target_arch = "aarch64")]
mod jumps {
    use std::arch::naked_asm;

    use super::{DLMOPEN, DLOPEN, DLSYM, HANDLER, SYSCALL, WATCHED, WORDS, found};
    use crate::device::CHECKED_UP_TO;

    #[unsafe(naked)]
    pub(super) extern "C" fn dlopen() {
        naked_asm!(
            "adrp x9, {checked}",
            "mov x10, #-1",
            "str x10, [x9, :lo12:{checked}]",
            "adrp x9, {real}",
            "ldr x9, [x9, :lo12:{real}]",
            "br x9",
            checked = sym CHECKED_UP_TO,
            real = sym DLOPEN,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn dlmopen() {
        naked_asm!(
            "adrp x9, {checked}",
            "mov x10, #-1",
            "str x10, [x9, :lo12:{checked}]",
            "adrp x9, {real}",
            "ldr x9, [x9, :lo12:{real}]",
            "br x9",
            checked = sym CHECKED_UP_TO,
            real = sym DLMOPEN,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn dlsym() {
        naked_asm!(
            "stp x0, x1, [sp, #-32]!",
            "str x30, [sp, #16]",
            "bl {found}",
            "mov x9, x0",
            "ldr x30, [sp, #16]",
            "ldp x0, x1, [sp], #32",
            "cbnz x9, 2f",
            "adrp x9, {real}",
            "ldr x9, [x9, :lo12:{real}]",
            "br x9",
            "2:",
            "mov x0, x9",
            "ret",
            found = sym found,
            real = sym DLSYM,
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn syscall() {
        naked_asm!(
            "cmp x0, {most}",
            "b.hs 2f",
            "lsr x9, x0, #6",
            "adrp x10, {watched}",
            "add x10, x10, :lo12:{watched}",
            "ldr x10, [x10, x9, lsl #3]",
            "lsr x10, x10, x0",
            "tbnz x10, #0, 3f",
            "2:",
            "adrp x9, {real}",
            "ldr x9, [x9, :lo12:{real}]",
            "br x9",
            "3:",
            "adrp x9, {handler}",
            "ldr x9, [x9, :lo12:{handler}]",
            "br x9",
            most = const 64 * WORDS,
            watched = sym WATCHED,
            real = sym SYSCALL,
            handler = sym HANDLER,
        )
    }
}

/// Empty functions: nothing is replaced on other processors ([`ADDRESSES`]).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod jumps {
    pub(super) extern "C" fn dlopen() {}
    pub(super) extern "C" fn dlmopen() {}
    pub(super) extern "C" fn dlsym() {}
    pub(super) extern "C" fn syscall() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn sum(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
        number + (a + b + c + d + e + f) as i64
    }

    #[test]
    fn only_watched_calls_go_to_the_handler() {
        let number = 510;
        watch(&[number], sum);
        SYSCALL.store(libc::syscall as *const () as usize, Ordering::Release);
        let jump = jumps::syscall as *const ();
        // SAFETY: a function that takes what `syscall` takes.
        let call: CallHandler = unsafe { std::mem::transmute(jump) };
        assert_eq!(call(number, 1, 2, 3, 4, 5, 6), number + 21);
        assert_eq!(call(libc::SYS_getpid, 0, 0, 0, 0, 0, 0), i64::from(std::process::id()));
        assert_eq!(call(600, 0, 0, 0, 0, 0, 0), -1);
    }

    #[test]
    fn names_are_found_only_where_the_real_one_would_be() {
        DLSYM.store(libc::dlsym as *const () as usize, Ordering::Release);
        // SAFETY: a function that takes what dlsym takes.
        let dlsym: extern "C" fn(*mut c_void, *const c_char) -> usize =
            unsafe { std::mem::transmute(jumps::dlsym as *const ()) };
        // SAFETY: looks a name up.
        let real = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) }.addr();
        assert_eq!(dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()), real);
        assert_eq!(dlsym(libc::RTLD_DEFAULT, c"no such function".as_ptr()), 0);
    }
}
