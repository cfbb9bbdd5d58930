//! Functions whose arguments or results have a meaning that their types do not show.
//!
//! # Safety
//! The program vouches for its pointers.
#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "functions of the standard"
)]

use std::ffi::{c_char, c_int, c_void};

use crate::abi::*;
use crate::constants::*;
use crate::shared::kind;
use crate::shared::library::library;
use crate::shared::places::*;
use crate::shared::standard::{self, MPI_Aint, MPI_Count};

/// Returns version -1, as the program does not use the standard ABI (MPI_Abi_get_version; MPI-5 section
/// 20.2).
pub unsafe fn abi_get_version(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        major.write(-1);
        minor.write(-1);
    }
    0
}

pub unsafe fn abi_get_info(info: *mut MPI_Info) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let mut at_info = HandlePlace::out(info);
        let code = (library().MPI_Abi_get_info)(at_info.place());
        at_info.finish();
        answer(code)
    }
}

pub unsafe fn abi_get_fortran_info(info: *mut MPI_Info) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let mut at_info = HandlePlace::out(info);
        let code = (library().MPI_Abi_get_fortran_info)(at_info.place());
        at_info.finish();
        answer(code)
    }
}

pub unsafe fn abi_set_fortran_info(info: MPI_Info) -> c_int {
    // SAFETY: a handle.
    answer(unsafe { (library().MPI_Abi_set_fortran_info)(info.standard()) })
}

pub unsafe fn abi_get_fortran_booleans(
    size: c_int,
    one: *mut c_void,
    none: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    // SAFETY: the module's Safety section.
    answer(unsafe { (library().MPI_Abi_get_fortran_booleans)(size, one, none, is_set) })
}

pub unsafe fn abi_set_fortran_booleans(size: c_int, one: *mut c_void, none: *mut c_void) -> c_int {
    // SAFETY: the module's Safety section.
    answer(unsafe { (library().MPI_Abi_set_fortran_booleans)(size, one, none) })
}

/// Does nothing; tools wrap the function (MPI_Pcontrol).
pub unsafe fn pcontrol(_level: c_int) -> c_int {
    0
}

/// Returns the version of MPI for which the front's ABI was defined (MPI_Get_version).
pub unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        version.write(MPI_VERSION);
        subversion.write(MPI_SUBVERSION);
    }
    0
}

pub unsafe fn error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    let code = error_in(errorcode);
    // SAFETY: the module's Safety section.
    unsafe {
        if let (Some(class), false) = (kind::own_class(code), errorclass.is_null()) {
            errorclass.write(class);
            return 0;
        }
        let mut at_errorclass = IntPlace::out(errorclass, error_out);
        let code = (library().MPI_Error_class)(code, at_errorclass.place());
        at_errorclass.finish();
        answer(code)
    }
}

pub unsafe fn error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int {
    let code = error_in(errorcode);
    // SAFETY: the module's Safety section.
    unsafe {
        if let (Some(class), false) = (kind::own_class(code), string.is_null() || resultlen.is_null()) {
            let text = format!("error class {class}, which Tutti does not raise\0");
            string.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            resultlen.write(text.len() as c_int - 1);
            return 0;
        }
        let mut at_string =
            TextPlace::<{ standard::MPI_MAX_ERROR_STRING }>::new(string, MPI_MAX_ERROR_STRING);
        let code = (library().MPI_Error_string)(code, at_string.place(), resultlen);
        at_string.finish(resultlen);
        answer(code)
    }
}

/// Replaces the address of an attribute's integer by that of a translated copy, which belongs to this thread.
unsafe fn translated(value: *mut c_void, translate: fn(c_int) -> c_int) {
    std::thread_local! {
        static VALUES: [std::cell::Cell<c_int>; 8] = const { [const { std::cell::Cell::new(0) }; 8] };
        static NEXT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    // SAFETY: the program's place, in which the library has put the address of an integer.
    unsafe {
        let place = value.cast::<*mut c_int>();
        let _ = VALUES.try_with(|values| {
            let number = translate(**place);
            // A value that is there already, or the oldest.
            let at = values.iter().position(|one| one.get() == number).unwrap_or_else(|| {
                let at = NEXT.replace((NEXT.get() + 1) % values.len());
                values[at].set(number);
                at
            });
            place.write(values[at].as_ptr());
        });
    }
}

pub unsafe fn comm_get_attr(comm: MPI_Comm, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
    let key = keyval_in(keyval);
    // SAFETY: the module's Safety section.
    unsafe {
        let code = (library().MPI_Comm_get_attr)(comm.standard(), key, value, flag);
        if code == 0 && *flag != 0 {
            match key {
                standard::MPI_IO | standard::MPI_HOST => translated(value, rank_out),
                standard::MPI_LASTUSEDCODE => translated(value, error_out),
                _ => {}
            }
        }
        answer(code)
    }
}

pub unsafe fn attr_get(comm: MPI_Comm, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe { comm_get_attr(comm, keyval, value, flag) }
}

pub unsafe fn win_get_attr(win: MPI_Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
    let key = keyval_in(keyval);
    // SAFETY: the module's Safety section.
    unsafe {
        let code = (library().MPI_Win_get_attr)(win.standard(), key, value, flag);
        if code == 0 && *flag != 0 {
            match key {
                standard::MPI_WIN_CREATE_FLAVOR => translated(value, flavor_out),
                standard::MPI_WIN_MODEL => translated(value, model_out),
                _ => {}
            }
        }
        answer(code)
    }
}

/// Translates the constructor arguments of a datatype: integers of MPI_Type_create_subarray and _darray, and
/// datatypes.
unsafe fn contents(datatype: usize, integers: *mut c_int, types: *mut MPI_Datatype, found: &[usize]) {
    // SAFETY: the module's Safety section: the library has filled in as many as the envelope says.
    unsafe {
        for (index, handle) in found.iter().enumerate().filter(|(_, handle)| **handle != usize::MAX) {
            types.add(index).write(MPI_Datatype::foreign(*handle));
        }
        let (mut numbers, mut combiner) = ([0; 4], 0);
        let [one, two, three, four] = numbers.each_mut().map(std::ptr::from_mut);
        if (library().MPI_Type_get_envelope_c)(datatype, one, two, three, four, &raw mut combiner) != 0 {
            return;
        }
        let change = |at: usize, translate: fn(c_int) -> c_int| {
            integers.add(at).write(translate(*integers.add(at)));
        };
        match combiner {
            // With large counts the sizes stand elsewhere.
            standard::MPI_COMBINER_SUBARRAY if numbers[2] > 0 => change(1, order_out),
            standard::MPI_COMBINER_SUBARRAY => change(3 * *integers as usize + 1, order_out),
            standard::MPI_COMBINER_DARRAY => {
                let dimensions = *integers.add(2) as usize;
                let first = if numbers[2] > 0 { 3 } else { 3 + dimensions };
                for at in first..first + dimensions {
                    change(at, distribution_out);
                    change(at + dimensions, distribution_argument_out);
                }
                change(first + 3 * dimensions, order_out);
            }
            _ => {}
        }
    }
}

pub unsafe fn type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut MPI_Aint,
    types: *mut MPI_Datatype,
) -> c_int {
    let mut found = vec![usize::MAX; usize::try_from(max_datatypes).unwrap_or(0)];
    let datatype = datatype.standard();
    // SAFETY: the module's Safety section.
    unsafe {
        let get = library().MPI_Type_get_contents;
        let place = found.as_mut_ptr();
        let code = get(datatype, max_integers, max_addresses, max_datatypes, integers, addresses, place);
        if code == 0 {
            contents(datatype, integers, types, &found);
        }
        answer(code)
    }
}

pub unsafe fn type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    integers: *mut c_int,
    addresses: *mut MPI_Aint,
    large_counts: *mut MPI_Count,
    types: *mut MPI_Datatype,
) -> c_int {
    let mut found = vec![usize::MAX; usize::try_from(max_datatypes).unwrap_or(0)];
    let handle = datatype.standard();
    // SAFETY: the module's Safety section.
    unsafe {
        let get = library().MPI_Type_get_contents_c;
        let (place, most) = (found.as_mut_ptr(), max_large_counts);
        let code = get(
            handle,
            max_integers,
            max_addresses,
            most,
            max_datatypes,
            integers,
            addresses,
            large_counts,
            place,
        );
        if code == 0 {
            contents(handle, integers, types, &found);
        }
        answer(code)
    }
}

/// Translates an array of integers of the program.
unsafe fn integers_in(integers: *const c_int, length: c_int, translate: fn(c_int) -> c_int) -> Vec<c_int> {
    let length = if integers.is_null() { 0 } else { usize::try_from(length).unwrap_or(0) };
    // SAFETY: the module's Safety section.
    (0..length).map(|at| translate(unsafe { *integers.add(at) })).collect()
}

fn pointer_or_null(vector: &[c_int], program: *const c_int) -> *const c_int {
    if program.is_null() { program } else { vector.as_ptr() }
}

pub unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: *const c_int,
    distribs: *const c_int,
    dargs: *const c_int,
    psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let kinds = integers_in(distribs, ndims, distribution_in);
        let arguments = integers_in(dargs, ndims, distribution_argument_in);
        let (kinds, arguments) = (pointer_or_null(&kinds, distribs), pointer_or_null(&arguments, dargs));
        let mut at_newtype = HandlePlace::out(newtype);
        let (create, old) = (library().MPI_Type_create_darray, oldtype.standard());
        let order = order_in(order);
        let code =
            create(size, rank, ndims, gsizes, kinds, arguments, psizes, order, old, at_newtype.place());
        at_newtype.finish();
        answer(code)
    }
}

pub unsafe fn type_create_darray_c(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: *const MPI_Count,
    distribs: *const c_int,
    dargs: *const c_int,
    psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let kinds = integers_in(distribs, ndims, distribution_in);
        let arguments = integers_in(dargs, ndims, distribution_argument_in);
        let (kinds, arguments) = (pointer_or_null(&kinds, distribs), pointer_or_null(&arguments, dargs));
        let mut at_newtype = HandlePlace::out(newtype);
        let (create, old) = (library().MPI_Type_create_darray_c, oldtype.standard());
        let order = order_in(order);
        let code =
            create(size, rank, ndims, gsizes, kinds, arguments, psizes, order, old, at_newtype.place());
        at_newtype.finish();
        answer(code)
    }
}

pub unsafe fn group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let given = integers_in(ranks1, n, rank_in);
        let translate = library().MPI_Group_translate_ranks;
        let ranks = pointer_or_null(&given, ranks1);
        let code = translate(group1.standard(), n, ranks, group2.standard(), ranks2);
        if code == 0 {
            (0..given.len()).for_each(|at| ranks2.add(at).write(rank_out(*ranks2.add(at))));
        }
        answer(code)
    }
}

/// Translates the error codes of spawned processes in the program's array.
unsafe fn codes_out(codes: *mut c_int, length: c_int) {
    if !codes.is_null() {
        // SAFETY: the module's Safety section.
        (0..usize::try_from(length).unwrap_or(0))
            .for_each(|at| unsafe { *codes.add(at) = error_out(*codes.add(at)) });
    }
}

pub unsafe fn comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let mut at_intercomm = HandlePlace::out(intercomm);
        let (spawn, info, root) = (library().MPI_Comm_spawn, info.standard(), rank_in(root));
        let code = spawn(command, argv, maxprocs, info, root, comm.standard(), at_intercomm.place(), codes);
        at_intercomm.finish();
        if code == 0 {
            codes_out(codes, maxprocs);
        }
        answer(code)
    }
}

pub unsafe fn comm_spawn_multiple(
    count: c_int,
    commands: *mut *mut c_char,
    argvs: *mut *mut *mut c_char,
    maxprocs: *const c_int,
    infos: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    // SAFETY: the module's Safety section. What only the root's caller gives, others may leave unset.
    unsafe {
        let mut rank = 0;
        (library().MPI_Comm_rank)(comm.standard(), &raw mut rank);
        let given = if rank == root { count } else { 0 };
        let given_infos = Handles::new(infos, given as isize);
        let mut at_intercomm = HandlePlace::out(intercomm);
        let (spawn, number) = (library().MPI_Comm_spawn_multiple, comm.standard());
        let (infos, place) = (given_infos.pointer(), at_intercomm.place());
        let code = spawn(count, commands, argvs, maxprocs, infos, rank_in(root), number, place, codes);
        at_intercomm.finish();
        if code == 0 && rank == root {
            codes_out(codes, (0..given as usize).map(|at| *maxprocs.add(at)).sum());
        }
        answer(code)
    }
}

pub unsafe fn t_event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatypes: *mut MPI_Datatype,
    displacements: *mut MPI_Aint,
    num_elements: *mut c_int,
    enumtype: *mut usize,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let room = num_elements.as_ref().map_or(0, |room| usize::try_from(*room).unwrap_or(0));
        let mut found = vec![usize::MAX; room];
        let place = if datatypes.is_null() { std::ptr::null_mut() } else { found.as_mut_ptr() };
        let mut at_verbosity = IntPlace::out(verbosity, verbosity_out);
        let mut at_bind = IntPlace::out(bind, binding_out);
        let mut at_info = HandlePlace::out(info);
        let code = (library().MPI_T_event_get_info)(
            event_index,
            name,
            name_len,
            at_verbosity.place(),
            place,
            displacements,
            num_elements,
            enumtype,
            at_info.place(),
            desc,
            desc_len,
            at_bind.place(),
        );
        at_verbosity.finish();
        at_bind.finish();
        at_info.finish();
        for (at, handle) in found.iter().enumerate().filter(|(_, handle)| **handle != usize::MAX) {
            datatypes.add(at).write(MPI_Datatype::foreign(*handle));
        }
        answer(code)
    }
}
