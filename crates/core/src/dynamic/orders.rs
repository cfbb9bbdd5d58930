//! Translation of a program's spawn arguments (MPI-5 section 11.8) to an order for the launcher.

use tutti_base::config::InitialErrorHandler;
use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::spawning::{ENV_ERROR_HANDLER, ENV_MEMORY_KINDS, Program};

use crate::info::Info;
use crate::memory_kinds;

/// Arguments for one program of MPI_Comm_spawn_multiple.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Name of the program.
    pub command: Vec<u8>,
    /// Arguments of the program, without its name.
    pub arguments: Vec<Vec<u8>>,
    /// Requested number of processes.
    pub count: i32,
    /// Hints of the info argument.
    pub info: Info,
}

/// Returns the program to start for these arguments. Unknown hints are ignored, as the standard requires.
///
/// # Errors
/// Returns `Arg` for a negative number of processes, `Spawn` for a hint that cannot be followed.
pub fn program(wish: &Wish) -> Result<Program> {
    let most = u32::try_from(wish.count).map_err(|_| {
        Error::new(ErrorClass::Arg, format!("argument maxprocs is {}; it must not be negative", wish.count))
    })?;
    let hint = |names: &[&str]| -> Option<Vec<u8>> {
        names.iter().find_map(|name| wish.info.get(name).ok().flatten()).map(<[u8]>::to_vec)
    };
    let soft = hint(&["soft"]);
    let count = soft.map_or(Ok(most), |soft| soften(&soft, most))?;
    let mut environment: Vec<Vec<u8>> = hint(&["env"]).map_or(Vec::new(), |lines| {
        let named = |line: &&[u8]| line.contains(&b'=');
        lines.split(|byte| *byte == b'\n').filter(named).map(<[u8]>::to_vec).collect()
    });
    let handler = wish.info.text("mpi_initial_errhandler");
    let handler = InitialErrorHandler::NAMES.iter().find(|(name, _)| handler == Some(name));
    environment.extend(handler.map(|(name, _)| format!("{ENV_ERROR_HANDLER}={name}").into_bytes()));
    let kinds = wish.info.text(memory_kinds::KEY);
    environment.extend(kinds.map(|kinds| format!("{ENV_MEMORY_KINDS}={kinds}").into_bytes()));
    Ok(Program {
        count,
        command: [std::slice::from_ref(&wish.command), &wish.arguments[..]].concat(),
        directory: hint(&["wdir", "wd"]),
        search: hint(&["path"]),
        environment,
        hosts: hint(&["host", "hosts"]),
        host_file: hint(&["hostfile", "host_file"]),
    })
}

/// Returns the largest number that `soft` allows: ranges `a`, `a:b` or `a:b:c` separated by commas (MPI-5
/// section 11.8.4). Any number of processes can be started here, so the largest one is best.
fn soften(soft: &[u8], most: u32) -> Result<u32> {
    let text = String::from_utf8_lossy(soft);
    let wrong = || {
        let reason = format!("info key soft is {text:?}, which is no list of ranges like 1,2:8,16:0:-4");
        Error::new(ErrorClass::Spawn, reason)
    };
    let mut best = None;
    for range in text.split(',') {
        let numbers: Vec<i64> = range
            .split(':')
            .map(|number| number.trim().parse().map_err(|_| wrong()))
            .collect::<Result<_>>()?;
        let (first, last, step) = match numbers[..] {
            [first] => (first, first, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        let most = i64::from(most);
        // The largest of first, first + step, ... not beyond last, that is at most `most`.
        let found = if step > 0 {
            let end = last.min(most);
            (first <= end).then(|| first + (end - first) / step * step)
        } else {
            let skipped = if first > most { (first - most + (-step - 1)) / -step } else { 0 };
            Some(first + skipped * step).filter(|found| *found >= last)
        };
        best = best.max(found.filter(|found| *found >= 0));
    }
    let reason = || format!("info key soft is {text:?}, which allows no number up to {most}");
    best.map(|best| best as u32).ok_or_else(|| Error::new(ErrorClass::Spawn, reason()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(soft: &str, most: u32, expected: Option<u32>) {
        assert_eq!(soften(soft.as_bytes(), most).ok(), expected, "{soft} up to {most}");
    }

    #[test]
    fn soft_numbers_are_as_many_as_allowed() {
        check("3", 8, Some(3));
        check("0:8", 5, Some(5));
        check("1:16:4", 8, Some(5));
        check("16:0:-5", 8, Some(6));
        check("2,7,4", 5, Some(4));
        check("9:12", 8, None);
        check("9:", 8, None);
        check("1:5:0", 8, None);
        check("", 8, None);
    }

    #[test]
    fn hints_become_options() {
        let mut info = Info::new();
        for (key, value) in [
            ("wdir", "/tmp"),
            ("path", "/opt"),
            ("env", "A=1\nB\nC=3"),
            ("mpi_initial_errhandler", "mpi_errors_return"),
            ("mpi_memory_alloc_kinds", "mpi:alloc_mem"),
        ] {
            info.set(key, value).unwrap();
        }
        let wish = Wish { command: b"a".to_vec(), arguments: vec![b"x".to_vec()], count: 2, info };
        let text = |text: &str| text.as_bytes().to_vec();
        let expected = Program {
            count: 2,
            command: vec![text("a"), text("x")],
            directory: Some(text("/tmp")),
            search: Some(text("/opt")),
            environment: vec![
                text("A=1"),
                text("C=3"),
                text("TUTTI_INITIAL_ERROR_HANDLER=mpi_errors_return"),
                text("TUTTI_MEMORY_KINDS=mpi:alloc_mem"),
            ],
            ..Program::default()
        };
        assert_eq!(program(&wish).unwrap(), expected);
        assert_eq!(program(&Wish { count: -1, ..wish }).unwrap_err().class, ErrorClass::Arg);
    }
}
