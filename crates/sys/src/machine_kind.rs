//! The kind of machine that this process runs on. Measured costs are stored under the name of the machine's
//! kind. So they are valid for all equal machines of a cluster, and become invalid when a container or
//! virtual machine moves to another processor.

use crate::cpu;
use std::fs::File;
use std::io::Read;

/// Length of the part of `/proc/cpuinfo` that is read, in bytes: the first processor's entry. The whole
/// file takes milliseconds on a machine with hundreds of processors.
const CPUINFO_BYTES: u64 = 4096;

/// Returns the name of this kind of machine: processor model, number of usable processors, kernel release.
/// It is part of a file name, and has letters, digits, `.`, `-` and `_` only.
pub fn machine_kind() -> String {
    let release = read_start("/proc/sys/kernel/osrelease");
    name(&read_start("/proc/cpuinfo"), cpu::usable_processors(), &release)
}

/// Returns the model of the first processor in the text of `/proc/cpuinfo`. Arm has numbers of implementer
/// and part there instead of names.
pub fn processor_model(cpuinfo: &str) -> String {
    if let Some(name) = field(cpuinfo, "model name") {
        return name.to_string();
    }
    match (field(cpuinfo, "CPU implementer"), field(cpuinfo, "CPU part")) {
        (Some(maker), Some(part)) => format!("{} {maker} {part}", std::env::consts::ARCH),
        _ => std::env::consts::ARCH.to_string(),
    }
}

fn name(cpuinfo: &str, processors: usize, release: &str) -> String {
    let model = processor_model(cpuinfo);
    let words = [model.trim(), &processors.to_string(), release.trim()].join("_");
    let plain = |letter: char| match letter {
        '.' | '-' | '_' => letter,
        _ if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    words.chars().map(plain).collect()
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    };
    cpuinfo.lines().find_map(value)
}

/// Returns the beginning of a file; an empty text if it cannot be read.
fn read_start(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(CPUINFO_BYTES).read_to_end(&mut bytes));
    read.map_or(String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cpuinfo: &str, processors: usize, expected: &str) {
        assert_eq!(name(cpuinfo, processors, "6.1.0-9\n"), expected);
    }

    #[test]
    fn kinds_have_the_model_the_processors_and_the_kernel() {
        let intel = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nflags\t: fpu\n";
        check(intel, 16, "Intel-R--Xeon-R--CPU---2.20GHz_16_6.1.0-9");
        let arm = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n";
        check(arm, 4, &format!("{}-0x41-0xd0c_4_6.1.0-9", std::env::consts::ARCH));
        check("", 1, &format!("{}_1_6.1.0-9", std::env::consts::ARCH));
    }

    #[test]
    fn this_machine_has_a_kind() {
        let kind = machine_kind();
        assert!(kind.contains('_') && !kind.contains('/') && !kind.contains(' '), "{kind}");
    }
}
