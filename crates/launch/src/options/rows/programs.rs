//! Options for the directory and variables of programs, and for files of options.

use crate::options::policies;
use crate::options::row::{Row, row};
use crate::options::values::{export, names, variable};
use crate::request::Inherit;
use std::path::Path;
use tutti_sys::files;

/// Maximum bytes of a file of options.
const CONFIGURATION_BYTES: u64 = 16 << 20;

pub(super) const ROWS: &[Row] = &[
    row(&["wdir", "wd"], &["DIR"], "working directory of the ranks", |r, v| {
        r.program.directory = Some(v[0].clone().into());
        Ok(())
    }),
    row(&["path"], &["DIRS"], "where to look for the program, before PATH", |r, v| {
        r.program.search = Some(v[0].clone().into());
        Ok(())
    }),
    row(&["env"], &["NAME", "VALUE"], "set a variable for this program", |r, v| {
        r.program.environment.push(variable(&v[0], &v[1])?);
        Ok(())
    }),
    row(&["genv"], &["NAME", "VALUE"], "set a variable for all programs", |r, v| {
        r.request.environment.push(variable(&v[0], &v[1])?);
        Ok(())
    }),
    row(&["x"], &["NAME[=VALUE]"], "set or pass on a variable for this program", export),
    row(&["envlist"], &["NAMES"], "this program inherits only these variables", |r, v| {
        r.program.inherit = Some(Inherit::Only(names(&v[0])?));
        Ok(())
    }),
    row(&["genvlist"], &["NAMES"], "programs inherit only these variables", |r, v| {
        r.request.inherit = Inherit::Only(names(&v[0])?);
        Ok(())
    }),
    row(&["envexcl"], &["NAMES"], "this program inherits all variables but these", |r, v| {
        r.program.inherit = Some(Inherit::Except(names(&v[0])?));
        Ok(())
    }),
    row(&["genvexcl"], &["NAMES"], "programs inherit all variables but these", |r, v| {
        r.request.inherit = Inherit::Except(names(&v[0])?);
        Ok(())
    }),
    row(&["envnone"], &[], "this program inherits no variables", |r, _| {
        r.program.inherit = Some(Inherit::None);
        Ok(())
    }),
    row(&["genvnone"], &[], "programs inherit no variables", |r, _| {
        r.request.inherit = Inherit::None;
        Ok(())
    }),
    row(&["envall"], &[], "this program inherits all variables", |r, _| {
        r.program.inherit = Some(Inherit::All);
        Ok(())
    }),
    row(&["genvall"], &[], "programs inherit all variables (the default)", |r, _| {
        r.request.inherit = Inherit::All;
        Ok(())
    }),
    row(
        &["unset-env"],
        &["NAME"],
        "this program does not get a variable, or all that begin as NAME*",
        |r, v| {
            r.program.unset.push(variable(&v[0], "")?.0);
            Ok(())
        },
    ),
    row(
        &["configfile", "app"],
        &["FILE"],
        "read options and programs from FILE, one program a line",
        |r, v| {
            let path = Path::new(&v[0]);
            let text = files::read_text_or_pipe(path, CONFIGURATION_BYTES)?;
            for word in policies::lines(&text, path)?.into_iter().rev() {
                r.rest.push_front(word.into());
            }
            Ok(())
        },
    ),
];
