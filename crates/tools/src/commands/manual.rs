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
use tutti_launch::generated::statuses::STATUSES;
use tutti_launch::options::{self, OptionHelp};

/// Text of the compiler wrapper, which contains its usage.
const WRAPPER: &str = include_str!("../../../abi/wrappers/mpicc");

/// Names of the launcher.
const LAUNCHERS: [&str; 2] = ["mpirun", "mpiexec"];
/// Names of the compiler wrappers.
const WRAPPERS: [&str; 6] = ["mpicc", "mpicxx", "mpic++", "mpifort", "mpif77", "mpif90"];

/// Options of `tutti manual`.
#[derive(Args)]
pub struct ManualOptions {
    /// Directory to write to: PREFIX/share
    directory: PathBuf,
}

/// Writes all of it; `tutti` is this program.
///
/// # Errors
/// Returns the file that cannot be written, with the reason.
pub fn run(options: &ManualOptions, tutti: Command) -> Result<(), String> {
    write(&options.directory, tutti).map_err(|error| format!("{}: {error}", options.directory.display()))
}

fn write(share: &Path, tutti: Command) -> io::Result<()> {
    let section = |number: u32| share.join(format!("man/man{number}"));
    for folder in [section(1), section(7)] {
        fs::create_dir_all(folder)?;
    }
    clap_mangen::generate_to(tutti.clone(), section(1))?;
    for launcher in LAUNCHERS {
        fs::write(section(1).join(format!("{launcher}.1")), launcher_page(launcher)?)?;
    }
    for wrapper in WRAPPERS {
        fs::write(section(1).join(format!("{wrapper}.1")), wrapper_page(wrapper).render())?;
    }
    fs::write(section(7).join("tutti-settings.7"), settings_page().render())?;
    let shells = [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/site-functions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ];
    for (shell, folder) in shells {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        for command in [tutti.clone(), launcher(LAUNCHERS[0]), launcher(LAUNCHERS[1])] {
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

/// Renders the page of a launcher: the options, and the exit statuses in a section of their own.
fn launcher_page(name: &'static str) -> io::Result<Vec<u8>> {
    let page = clap_mangen::Man::new(launcher(name).after_help(None::<&str>));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let mut rest = Roff::new();
    let (_, notes) = options::described();
    // The help ends with the table of statuses, which gets a section here.
    let notes = notes.split("\n\nExit status:").next().unwrap_or_default();
    rest.control("SH", ["NOTES"]);
    for paragraph in notes.split("\n\n") {
        rest.control("PP", []).text([roman(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))]);
    }
    rest.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in STATUSES {
        rest.control("TP", []).text([bold(*status)]).text([roman(*meaning)]);
    }
    rest.control("SH", ["SEE ALSO"]).text([roman("mpicc(1), tutti(1), tutti-settings(7)")]);
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// Converts the options of `mpirun` to a command of clap, by the name of a launcher.
fn launcher(name: &'static str) -> Command {
    let (options, notes) = options::described();
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Start the ranks of an MPI job")
        .override_usage(format!(
            "{name} [OPTIONS] PROGRAM [ARGUMENTS...] [: [OPTIONS] PROGRAM [ARGUMENTS...]]..."
        ))
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

/// Builds the manual page of a compiler wrapper from the usage text of all.
fn wrapper_page(name: &str) -> Roff {
    let usage = WRAPPER.split("cat <<'END'\n").nth(1).and_then(|text| text.split("END\n").next());
    let usage = usage.expect("the wrapper says how it is used");
    let mut page = Roff::new();
    page.control("TH", [name, "1"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - compile and link MPI programs with Tutti"))]);
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
        let page = launcher("mpirun");
        page.clone().debug_assert();
        assert_eq!(page.get_arguments().count(), options::described().0.count() + 1);
    }

    #[test]
    fn exit_statuses_have_a_section() {
        let page = String::from_utf8(launcher_page("mpiexec").unwrap()).unwrap();
        assert!(
            page.contains(".SH \"EXIT STATUS\"") && page.contains("124") && page.contains("mpiexec"),
            "{page}"
        );
        assert_eq!(page.matches("the time limit is over").count(), 1, "{page}");
    }

    #[test]
    fn pages_name_what_the_tables_name() {
        let page = settings_page().render();
        for setting in SETTINGS.iter().chain(DEBUG_KEYS) {
            assert!(page.contains(&setting.name.replace('-', "\\-")), "{}", setting.name);
        }
        assert!(wrapper_page("mpicc").render().contains("removed"));
    }
}
