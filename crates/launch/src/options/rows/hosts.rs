//! Options for hosts, their number of ranks, and the way to reach them.

use crate::allocation::{agents, ranges};
use crate::error::LaunchError;
use crate::options::row::{Row, row};
use crate::options::values::{MAXIMUM_RANKS, count, some};
use tutti_base::config::check_interface;

pub(super) const ROWS: &[Row] = &[
    row(&["n", "np", "c"], &["N"], "start N ranks of the program that follows (default 1)", |r, v| {
        r.program.count = Some(count(&v[0])?);
        Ok(())
    }),
    row(
        &["host", "hosts", "H"],
        &["NAME[:N],..."],
        "run on these hosts, N ranks each (default 1)",
        |r, v| {
            r.request.hosts.extend(v[0].split(',').map(str::to_string));
            Ok(())
        },
    ),
    row(
        &["hostfile", "machinefile", "f"],
        &["FILE"],
        "run on the hosts that FILE lists, one a line: NAME, NAME:N or NAME slots=N",
        |r, v| {
            r.request.host_files.push(v[0].clone());
            Ok(())
        },
    ),
    row(&["ppn", "N", "npernode"], &["N"], "N ranks a host", |r, v| {
        r.request.per_node = Some(count(&v[0])?);
        Ok(())
    }),
    row(&["hosts-group"], &["NAMES"], "run on these hosts, with ranges: n[01-04,7]", |r, v| {
        r.request.hosts.extend(ranges::expand(&v[0])?);
        Ok(())
    }),
    row(&["default-hostfile"], &["FILE"], "the host file for the case that no hosts are named", |r, v| {
        r.request.default_host_files.push(v[0].clone());
        Ok(())
    }),
    row(&["nolocal", "skip-launch-node"], &[], "no ranks on this host", |r, _| {
        r.request.is_not_here = true;
        Ok(())
    }),
    row(&["order-nodes"], &["ORDER"], "hosts by their slots: ascending, descending", |r, v| {
        r.request.hosts_ascending = Some(match v[0].to_ascii_lowercase().as_str() {
            "ascending" | "asc" => true,
            "descending" | "desc" => false,
            _ => return Err(LaunchError::Invalid("ascending or descending is needed".to_string())),
        });
        Ok(())
    }),
    row(
        &["nooversubscribe"],
        &[],
        "refuse more ranks than slots (without hosts: than processors)",
        |r, _| {
            r.request.is_within_slots = true;
            Ok(())
        },
    ),
    row(&["usize"], &["N"], "value of MPI_UNIVERSE_SIZE: a number, SYSTEM, INFINITE", |r, v| {
        r.request.universe = match v[0].as_str() {
            "SYSTEM" => None,
            "INFINITE" => Some(i32::MAX as u32),
            number => Some(count(number)?),
        };
        Ok(())
    }),
    row(
        &["agent"],
        &["CMD"],
        "start on other hosts by CMD HOST COMMAND... (default: ssh, or what the resource manager has)",
        |r, v| {
            r.request.agent = Some(some(&v[0])?);
            Ok(())
        },
    ),
    row(&["radix"], &["N"], "each host starts N others (0: this one starts all)", |r, v| {
        let radix = v[0].parse().ok().filter(|radix| *radix <= MAXIMUM_RANKS);
        r.request.radix =
            Some(radix.ok_or_else(|| {
                LaunchError::Invalid(format!("a number from 0 to {MAXIMUM_RANKS} is needed"))
            })?);
        Ok(())
    }),
    row(
        &["interface", "iface"],
        &["NAME"],
        "reach other hosts by this interface, address or network",
        |r, v| {
            check_interface(&v[0]).map_err(|wanted| LaunchError::Invalid(format!("{wanted} is needed")))?;
            r.request.interface = Some(some(&v[0])?);
            Ok(())
        },
    ),
    row(&["prefix"], &["DIR"], "where Tutti is installed on the other hosts (default: as here)", |r, v| {
        r.request.prefix = Some(some(&v[0])?);
        Ok(())
    }),
    row(
        &["launcher", "bootstrap"],
        &["NAME"],
        "reach other hosts by ssh, rsh, slurm, sge, lsf, flux, oar, pals; fork: reach none",
        |r, v| {
            agents::named(&v[0])?;
            r.request.launcher = Some(v[0].clone());
            Ok(())
        },
    ),
];
