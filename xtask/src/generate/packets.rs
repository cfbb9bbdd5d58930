//! The kernel's packet program: `crates/offload/bpf/packets.o`, compiled by clang from `packets.c`.
//!
//! Building Tutti does not need clang: the object is committed. Beside it, `packets.made` has the digests
//! of the source and of the object. Without clang only the digests are checked; with the right clang the
//! object is compiled again and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of the compiler of the committed object: other versions produce other code.
const CLANG: &str = "clang version 14.";
const FOLDER: &str = "crates/offload/bpf";

/// Compiles the program if the source has changed.
///
/// # Errors
/// Errors of clang, or that it is missing.
pub fn write(root: &Path) -> Result<(), Vec<String>> {
    let folder = root.join(FOLDER);
    if fs::read_to_string(folder.join("packets.made")).ok() == made(&folder) {
        return Ok(());
    }
    let object = compile(&folder, "packets.o").map_err(|error| vec![error])?;
    let told = |error: std::io::Error| vec![format!("{}: {error}", object.display())];
    fs::write(folder.join("packets.made"), made(&folder).expect("both were just read")).map_err(told)?;
    println!("wrote {FOLDER}/packets.o");
    Ok(())
}

/// Checks that the object was compiled from the source.
///
/// # Errors
/// If it was not.
pub fn check(root: &Path) -> Result<(), Vec<String>> {
    let folder = root.join(FOLDER);
    let stale = || vec![format!("{FOLDER}/packets.o: stale; run `cargo xtask generate`, with {CLANG}*")];
    if fs::read_to_string(folder.join("packets.made")).ok() != made(&folder) {
        return Err(stale());
    }
    if !has_clang() {
        return Ok(());
    }
    let again = compile(&folder, &format!("again-{}.o", std::process::id())).map_err(|error| vec![error])?;
    let is_same = fs::read(&again).ok() == fs::read(folder.join("packets.o")).ok();
    let _ = fs::remove_file(again);
    if is_same { Ok(()) } else { Err(stale()) }
}

fn has_clang() -> bool {
    let told = Command::new("clang").arg("--version").output();
    told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains(CLANG))
        && Path::new("/usr/include/bpf/bpf_helpers.h").exists()
}

fn compile(folder: &Path, object: &str) -> Result<PathBuf, String> {
    if !has_clang() {
        return Err(format!("packets.c takes {CLANG}* and the headers of libbpf (scripts/need.sh kernel)"));
    }
    // The headers are those for the machine's own kind, and the object has no path of this machine.
    let kinds =
        Command::new("cc").arg("-print-multiarch").output().map_err(|error| format!("cc: {error}"))?;
    let headers = format!("-I/usr/include/{}", String::from_utf8_lossy(&kinds.stdout).trim());
    let words = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-fdebug-compilation-dir=."];
    let mut clang = Command::new("clang");
    clang.current_dir(folder).args(words).args([&headers, "-c", "packets.c", "-o", object]);
    run(&mut clang)?;
    run(Command::new("llvm-strip").current_dir(folder).args(["-g", object]))?;
    Ok(folder.join(object))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr)))
    }
}

/// Returns the digests of source and object.
fn made(folder: &Path) -> Option<String> {
    let digest = |name: &str| fs::read(folder.join(name)).ok().map(|bytes| fnv(&bytes));
    Some(format!("source {:016x}\nobject {:016x}\n", digest("packets.c")?, digest("packets.o")?))
}

/// Computes FNV-1a: it detects changes, but not forgery.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
