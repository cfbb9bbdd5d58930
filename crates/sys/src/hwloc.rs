//! The hardware locality library (hwloc 2, soname libhwloc.so.15), loaded only on request.
//!
//! libmpi_abi.so must start fast and work without hwloc, so nothing links to it. Of its structures only the
//! beginning of `struct hwloc_obj` up to `cpuset` is read; the soname fixes its layout. Package: libhwloc15
//! (Debian, Ubuntu).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;

const LIBRARY: &CStr = c"libhwloc.so.15";
/// Major version of the interface that the declarations below follow.
const API_MAJOR: c_uint = 2;

/// Kind of an object. Kinds that no caller needs are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A group without a more precise kind: a board, for example.
    Group,
    /// A processor package, or socket.
    Package,
    /// A memory controller with its memory.
    Numa,
    /// A level 3 cache.
    L3,
    /// A level 2 cache.
    L2,
    /// A core.
    Core,
    /// A hardware thread.
    Processor,
}

/// Object of the machine: a package, a cache, a core or another kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Kind of the object.
    pub kind: Kind,
    /// Operating system's number of the object; its index within its kind if it has none.
    pub number: u32,
    /// Processors that the object contains or is close to, by the operating system's numbers.
    pub processors: Vec<u32>,
}

/// Kinds with their numbers in hwloc's `hwloc_obj_type_t`.
const KINDS: [(Kind, c_int); 7] = [
    (Kind::Group, 12),
    (Kind::Package, 1),
    (Kind::Numa, 13),
    (Kind::L3, 6),
    (Kind::L2, 5),
    (Kind::Core, 2),
    (Kind::Processor, 3),
];

#[repr(C)]
struct RawObject {
    kind: c_int,
    subtype: *mut c_char,
    os_index: c_uint,
    name: *mut c_char,
    total_memory: u64,
    attributes: *mut c_void,
    depth: c_int,
    logical_index: c_uint,
    cousins: [*mut c_void; 2],
    parent: *mut c_void,
    sibling_rank: c_uint,
    siblings: [*mut c_void; 2],
    arity: c_uint,
    children: [*mut c_void; 3],
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *mut c_void,
    io_arity: c_uint,
    io_first_child: *mut c_void,
    misc_arity: c_uint,
    misc_first_child: *mut c_void,
    cpuset: *const c_void,
}

type Topology = *mut c_void;

/// Looks up a function of the library with its type. Used in an unsafe block that vouches for the type.
macro_rules! function {
    ($handle:expr, $name:expr, fn($($argument:ty),*) $(-> $result:ty)?) => {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
            symbol($handle, $name)?,
        )
    };
}

/// Functions of hwloc that are used, and the handle of the library.
struct Library {
    handle: *mut c_void,
    init: unsafe extern "C" fn(*mut Topology) -> c_int,
    set_synthetic: unsafe extern "C" fn(Topology, *const c_char) -> c_int,
    load: unsafe extern "C" fn(Topology) -> c_int,
    destroy: unsafe extern "C" fn(Topology),
    type_depth: unsafe extern "C" fn(Topology, c_int) -> c_int,
    count_by_depth: unsafe extern "C" fn(Topology, c_int) -> c_uint,
    object_by_depth: unsafe extern "C" fn(Topology, c_int, c_uint) -> *const RawObject,
    next_bit: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
}

/// Returns all objects of this machine, kind by kind, in hwloc's logical order. hwloc's own variables
/// HWLOC_XMLFILE and HWLOC_SYNTHETIC apply. Takes milliseconds.
///
/// # Errors
/// NotFound if the library is not installed, Unsupported if it has another version, or hwloc's own error.
pub fn discover() -> io::Result<Vec<Object>> {
    load(None)
}

/// Returns all objects of an imaginary machine, described in hwloc's synthetic syntax (`pack:2 core:4
/// pu:2`).
///
/// # Errors
/// Errors of [`discover`]; hwloc's error for an invalid description.
pub fn discover_synthetic(description: &CStr) -> io::Result<Vec<Object>> {
    load(Some(description))
}

fn load(synthetic: Option<&CStr>) -> io::Result<Vec<Object>> {
    let library = Library::open()?;
    let mut topology: Topology = std::ptr::null_mut();
    // SAFETY: the functions have the types declared above, by the version check in open; topology is
    // used between init and destroy only, and not after a failed init; a description is terminated.
    unsafe {
        if (library.init)(&mut topology) != 0 {
            return Err(io::Error::last_os_error());
        }
        let understood = synthetic.map_or(0, |text| (library.set_synthetic)(topology, text.as_ptr()));
        let loaded = if understood == 0 { (library.load)(topology) } else { understood };
        let error = io::Error::last_os_error();
        let objects = if loaded == 0 { Ok(library.objects(topology)) } else { Err(error) };
        (library.destroy)(topology);
        objects
    }
}

impl Library {
    fn open() -> io::Result<Library> {
        // SAFETY: the name is terminated; hwloc's constructors have no preconditions.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "libhwloc.so.15 is not installed"));
        }
        // SAFETY: each symbol has the type it is given here in every library of this soname.
        unsafe {
            let version = function!(handle, c"hwloc_get_api_version", fn() -> c_uint);
            if version() >> 16 != API_MAJOR {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Ok(Library {
                handle,
                init: function!(handle, c"hwloc_topology_init", fn(*mut Topology) -> c_int),
                set_synthetic: function!(
                    handle,
                    c"hwloc_topology_set_synthetic",
                    fn(Topology, *const c_char) -> c_int
                ),
                load: function!(handle, c"hwloc_topology_load", fn(Topology) -> c_int),
                destroy: function!(handle, c"hwloc_topology_destroy", fn(Topology)),
                type_depth: function!(handle, c"hwloc_get_type_depth", fn(Topology, c_int) -> c_int),
                count_by_depth: function!(
                    handle,
                    c"hwloc_get_nbobjs_by_depth",
                    fn(Topology, c_int) -> c_uint
                ),
                object_by_depth: function!(
                    handle,
                    c"hwloc_get_obj_by_depth",
                    fn(Topology, c_int, c_uint) -> *const RawObject
                ),
                next_bit: function!(handle, c"hwloc_bitmap_next", fn(*const c_void, c_int) -> c_int),
            })
        }
    }

    /// # Safety
    /// `topology` is loaded.
    unsafe fn objects(&self, topology: Topology) -> Vec<Object> {
        let mut found = Vec::new();
        for (kind, number) in KINDS {
            // SAFETY: topology is loaded; a depth that is absent or ambiguous has no objects, and
            // objects live as long as the topology.
            unsafe {
                let depth = (self.type_depth)(topology, number);
                for index in 0..(self.count_by_depth)(topology, depth) {
                    let Some(object) = (self.object_by_depth)(topology, depth, index).as_ref() else {
                        continue;
                    };
                    let number = if object.os_index == c_uint::MAX { index } else { object.os_index };
                    found.push(Object { kind, number, processors: self.members(object.cpuset) });
                }
            }
        }
        found
    }

    /// # Safety
    /// `set` is a bitmap of hwloc, or null.
    unsafe fn members(&self, set: *const c_void) -> Vec<u32> {
        let mut members = Vec::new();
        if set.is_null() {
            return members;
        }
        // SAFETY: set is a bitmap. An argument of -1 requests the first member; the result -1 means that
        // there are no more.
        let next = |after: c_int| u32::try_from(unsafe { (self.next_bit)(set, after) }).ok();
        while let Some(member) = next(members.last().map_or(-1, |&last: &u32| last.cast_signed())) {
            members.push(member);
        }
        members
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened in open, closed only here; no function of it is called after.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// # Safety
/// `handle` is an open library.
unsafe fn symbol(handle: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the caller vouches for handle; name is terminated.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("libhwloc.so.15 has no {name:?}")));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_an_object_is_laid_out_as_in_hwloc() {
        // Values of offsetof in a C program against hwloc 2.9 for 64-bit machines.
        assert_eq!(
            (std::mem::offset_of!(RawObject, cpuset), std::mem::offset_of!(RawObject, os_index)),
            (184, 16)
        );
    }

    #[test]
    fn this_machine_has_processors_in_cores() {
        let objects = match discover() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            found => found.unwrap(),
        };
        let of = |kind| objects.iter().filter(move |object| object.kind == kind);
        assert!(of(Kind::Processor).all(|object| object.processors == [object.number]));
        assert!(of(Kind::Processor).count() >= of(Kind::Core).count());
        assert!(of(Kind::Core).count() > 0 && of(Kind::Numa).count() > 0);
    }
}
