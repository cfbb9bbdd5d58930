//! The holder: the first process of a host. It creates the host's mounts, keeps its namespaces alive, and
//! serves as its sshd.

use std::io::BufRead;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::error::{Result, TestbedError};
use crate::remote;
use crate::state::{self, Pid};

/// Time between two checks if the process still exists with which the testbed ends.
const LOOK: Duration = Duration::from_millis(300);

/// Options of a holder's command line.
#[derive(Args, Clone, Debug)]
pub struct Hold {
    /// Name of the host; `switch` is the one that connects all links.
    #[arg(long)]
    host: String,
    /// Folder of the testbed.
    #[arg(long)]
    directory: PathBuf,
    /// Folders below /tmp or /dev/shm that stay visible.
    #[arg(long)]
    share: Vec<PathBuf>,
    /// The testbed ends with this process.
    #[arg(long)]
    with: Option<u32>,
}

/// Script that prepares a host. Its mount namespace is private. A shared folder is bound into the new tree
/// before that one hides it. The interfaces under /sys are those of the namespace that mounted it; cgroups
/// lie below and are mounted again. Paths are relative: if `up` has been killed, the folder is removed
/// meanwhile and must not be created again.
const HOST: &str = r#"
hostname "$host" 2>/dev/null || echo "$host" > /proc/sys/kernel/hostname
ip link set lo up
mkdir "$directory/$host"
mount -t tmpfs -o mode=755 testbed "$directory/$host"
cd "$directory/$host"
for place in /tmp /dev/shm; do
    new=".$place"
    mkdir -p "$new"
    mount -t tmpfs -o mode=1777 testbed "$new"
    for folder in "$@"; do
        case $folder in
            "$place"/*) mkdir -p "$new${folder#"$place"}"; mount --rbind "$folder" "$new${folder#"$place"}" ;;
        esac
    done
    mount --rbind "$new" "$place"
done
if mkdir cgroup && mount --rbind /sys/fs/cgroup ./cgroup 2>/dev/null; then
    mount -t sysfs sysfs /sys && mount --rbind ./cgroup /sys/fs/cgroup
fi
cd /
umount -l "$directory/$host"
mount --bind "$directory/hosts" /etc/hosts
"#;

const SWITCH: &str = "
ip link add br0 type bridge stp_state 0
ip link set br0 up
";

/// Commands that disable IPv6, so that only requested traffic is on the network.
const QUIET: &str = "for kind in all default; do
    echo 1 > /proc/sys/net/ipv6/conf/$kind/disable_ipv6
done 2>/dev/null || true
";

/// Prepares the host and keeps it. Returns when it is not needed any more.
///
/// # Errors
/// If a mount or a command is refused.
pub fn hold(options: &Hold) -> Result<()> {
    let is_switch = options.host == "switch";
    prepare(options, if is_switch { SWITCH } else { HOST })?;
    println!("ready");
    let mut words = std::io::stdin().lock().lines().map_while(std::result::Result::ok);
    let mut listener = None;
    let stays = words.any(|word| {
        if word == "serve" {
            listener = TcpListener::bind(("0.0.0.0", remote::PORT)).ok();
            println!("{}", if listener.is_some() { "ready" } else { "no server" });
        }
        word == "stay"
    });
    if !stays {
        // The process that was building the testbed has been killed.
        return if is_switch { state::abandon(&options.directory) } else { Ok(()) };
    }
    if let Some(listener) = listener {
        std::thread::spawn(move || remote::serve(&listener));
    }
    let with = options.with.and_then(Pid::find);
    let kept = || state::names(&options.directory, std::process::id());
    while kept() && (options.with.is_none() || with.is_some_and(Pid::alive)) {
        std::thread::sleep(LOOK);
    }
    end(&options.directory, is_switch && kept())
}

fn prepare(options: &Hold, script: &str) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-euc", &format!("{QUIET}{script}"), "sh"]).args(&options.share);
    command.env("host", &options.host).env("directory", &options.directory);
    let status = command.status().map_err(TestbedError::not_started("sh"))?;
    match status.success() {
        true => Ok(()),
        false => Err(TestbedError::Preparation { host: options.host.clone(), status }),
    }
}

/// Ends the host. Called when the process with which the testbed ends is gone, or the testbed itself is. In
/// the second case its builder was killed before all holders were told to stay.
fn end(directory: &Path, removes: bool) -> Result<()> {
    let left = state::kill_beside(std::process::id());
    if removes {
        state::remove(directory)?;
    }
    left.map_err(|count| TestbedError::ProcessesLeft { host: String::new(), count })
}
