//! Manual pages and completions for shells, from the tables of the help. `tutti manual DIRECTORY` writes
//! them; `make install` calls it with the installed PREFIX/share.
//!
//! Options of `mpirun` are in a table of their own ([`tutti_launch::options`]), as their syntax (one dash or
//! two, values in the next word) is not clap's. Here they become a command of clap that is never parsed. The
//! page on settings contains all settings of the registry, for users and developers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args, Command};
use clap_complete::{Shell, generate_to};
use clap_mangen::roff::{Roff, bold, roman};
use tutti_base::config::{Audience, Config, DEBUG_KEYS, SETTINGS, Setting};
use tutti_launch::options::{self, OptionHelp};

/// Text of the compiler wrapper, which contains its usage.
const WRAPPER: &str = include_str!("../../../abi/wrappers/mpicc");

/// Options of `tutti manual`.
#[derive(Args)]
pub struct Options {
    /// Directory to write to: PREFIX/share
    directory: PathBuf,
}

/// Writes all of it; `tutti` is this program.
///
/// # Errors
/// Returns the file that cannot be written, with the reason.
pub fn run(options: &Options, tutti: Command) -> Result<(), String> {
    write(&options.directory, tutti).map_err(|error| format!("{}: {error}", options.directory.display()))
}

fn write(share: &Path, tutti: Command) -> io::Result<()> {
    let section = |number: u32| share.join(format!("man/man{number}"));
    for folder in [section(1), section(7)] {
        fs::create_dir_all(folder)?;
    }
    clap_mangen::generate_to(tutti.clone(), section(1))?;
    clap_mangen::generate_to(mpirun(), section(1))?;
    fs::write(section(1).join("mpicc.1"), wrapper_page().render())?;
    fs::write(section(7).join("tutti-settings.7"), settings_page().render())?;
    let shells = [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/site-functions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ];
    for (shell, folder) in shells {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        for command in [tutti.clone(), mpirun()] {
            let (name, mut command) = (command.get_name().to_string(), command);
            let path = generate_to(shell, &mut command, &name, &folder)?;
            // Files that bash loads automatically have the name of the command.
            if shell == Shell::Bash {
                fs::rename(path, folder.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Converts the options of `mpirun` to a command of clap.
fn mpirun() -> Command {
    let (options, notes) = options::described();
    Command::new("mpirun")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Start the ranks of an MPI job")
        .override_usage("mpirun [OPTIONS] PROGRAM [ARGUMENTS...] [: [OPTIONS] PROGRAM [ARGUMENTS...]]...")
        .after_help(notes)
        .trailing_var_arg(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(options.map(argument))
        .arg(
            Arg::new("PROGRAM")
                .help("the program, and its arguments")
                .num_args(0..)
                .value_hint(clap::ValueHint::CommandWithArguments),
        )
}

fn argument(option: OptionHelp) -> Arg {
    let OptionHelp { names, values, doc } = option;
    let mut argument = Arg::new(names[0]).help(doc);
    for name in names {
        let mut letters = name.chars();
        argument = match (letters.next(), letters.next()) {
            (Some(letter), None) if argument.get_short().is_none() => argument.short(letter),
            (Some(letter), None) => argument.visible_short_alias(letter),
            _ if argument.get_long().is_none() => argument.long(*name),
            _ => argument.visible_alias(*name),
        };
    }
    if values.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    argument.value_names(values.iter().copied()).num_args(values.len()).action(ArgAction::Append)
}

/// Builds the manual page of the compiler wrappers from their own usage text.
fn wrapper_page() -> Roff {
    let usage = WRAPPER.split("cat <<'END'\n").nth(1).and_then(|text| text.split("END\n").next());
    let usage = usage.expect("the wrapper says how it is used");
    let mut page = Roff::new();
    page.control("TH", ["mpicc", "1"]);
    page.control("SH", ["NAME"])
        .text([roman("mpicc, mpicxx, mpifort - compile and link MPI programs with Tutti")]);
    page.control("SH", ["SYNOPSIS"]).control("nf", []);
    for line in usage.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", [])
        .control("SH", ["SEE ALSO"])
        .text([roman("mpirun(1), tutti(1), tutti-settings(7)")]);
    page
}

/// Builds the manual page of the settings.
fn settings_page() -> Roff {
    let mut page = Roff::new();
    page.control("TH", ["tutti-settings", "7"]);
    page.control("SH", ["NAME"]).text([roman("tutti-settings - environment variables of Tutti")]);
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "None has to be set. A wrong value or an unknown name that begins with TUTTI_ is refused. tutti info \
         shows what is in force.",
    )]);
    let of = |audience: Audience| SETTINGS.iter().filter(move |setting| setting.audience == audience);
    describe_settings(&mut page, "SETTINGS", of(Audience::User));
    describe_settings(&mut page, "SETTINGS FOR DEVELOPERS OF TUTTI", of(Audience::Developer));
    describe_settings(&mut page, "KEYS OF TUTTI_DEBUG", DEBUG_KEYS.iter());
    page.control("SH", ["SEE ALSO"]).text([roman("mpirun(1), tutti-info(1)")]);
    page
}

fn describe_settings<'a>(page: &mut Roff, title: &str, settings: impl Iterator<Item = &'a Setting>) {
    let default = Config::default();
    page.control("SH", [title]);
    for setting in settings {
        let value = setting.show(&default);
        let value = if value.is_empty() { "none" } else { &value };
        page.control("TP", []);
        page.text([bold(setting.name), roman(format!(" ({}; {value})", setting.kind))]);
        page.text([roman(setting.doc)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_mpirun_is_described_once() {
        mpirun().debug_assert();
        let page = mpirun();
        assert_eq!(page.get_arguments().count(), options::described().0.count() + 1);
    }

    #[test]
    fn pages_name_what_the_tables_name() {
        let page = settings_page().render();
        for setting in SETTINGS.iter().chain(DEBUG_KEYS) {
            assert!(page.contains(&setting.name.replace('-', "\\-")), "{}", setting.name);
        }
        assert!(wrapper_page().render().contains("removed"));
    }
}
