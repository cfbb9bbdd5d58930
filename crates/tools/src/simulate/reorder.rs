//! `tutti sim reorder`: effect of reordering the ranks of a grid (MPI_Cart_create). It prints bytes times
//! distance before and after, on this or any recorded machine.

use std::path::PathBuf;

use clap::Args;
use tutti_coll::hierarchy::mapping::TrafficMatrix;
use tutti_coll::hierarchy::{Hierarchy, NETWORK};
use tutti_coll::simulate::{Binding, Layout};
use tutti_topo::Distance;

use crate::simulate::machines;

/// Options of `tutti sim reorder`.
#[derive(Args)]
pub struct ReorderOptions {
    /// Extents of the grid: 4x4x4. There are as many ranks as places.
    #[arg(long, value_parser = extents)]
    dims: Extents,
    /// All dimensions are rings.
    #[arg(long)]
    periodic: bool,
    /// Bytes that neighbours send one another.
    #[arg(long, default_value = "1K", value_parser = crate::measure::options::bytes)]
    bytes: u64,
    /// A recorded machine (a file as in fixtures/machines); by default this one
    #[arg(long)]
    machine: Option<PathBuf>,
    /// Number of machines of this kind, joined by a network
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
    /// Cores of the ranks before reordering: compact, scatter, random:SEED, or a list of processors
    /// (0,4,8-11)
    #[arg(long, default_value = "compact", value_parser = machines::binding)]
    bind: Binding,
}

/// The extents of a grid.
#[derive(Clone)]
struct Extents(Vec<u32>);

/// Prints bytes times distance before and after.
///
/// # Errors
/// Fails if the machine's file cannot be read.
pub fn run(options: &ReorderOptions) -> Result<(), String> {
    crate::output::show(&report(options)?);
    Ok(())
}

fn report(options: &ReorderOptions) -> Result<String, String> {
    let Extents(dims) = &options.dims;
    let machine = machines::machine(options.machine.as_deref())?;
    machines::check_list(&machine, &options.bind)?;
    let ranks: u32 = dims.iter().product();
    let layout = Layout::bound(&machine, &options.bind, ranks, options.hosts.clamp(1, ranks));
    let hierarchy = layout.hierarchy();
    let traffic = TrafficMatrix::grid(dims, &vec![options.periodic; dims.len()], ranks, options.bytes);
    let (stay, moved) = ((0..ranks).collect::<Vec<u32>>(), traffic.map(hierarchy));
    let (before, after) = (traffic.cost(hierarchy, &stay), traffic.cost(hierarchy, &moved));
    let shape: Vec<String> = dims.iter().map(u32::to_string).collect();
    let mut text = format!(
        "grid of {}, {} bytes a neighbour, {ranks} ranks on {} of {}\n",
        shape.join(" x "),
        options.bytes,
        layout.hosts(),
        machine.name()
    );
    text += &format!("  {:<24}  {:>14}  {:>14}\n", "", "before", "after");
    text += &format!("  {:<24}  {before:>14}  {after:>14}\n", "bytes x distance");
    let (of_before, of_after) =
        (by_distance(&traffic, hierarchy, &stay), by_distance(&traffic, hierarchy, &moved));
    for distance in
        (1..=NETWORK).filter(|distance| of_before[*distance as usize] + of_after[*distance as usize] > 0)
    {
        let place = usize::from(distance);
        let name = format!("bytes at distance {distance}");
        text += &format!("  {name:<24}  {:>14}  {:>14}\n", of_before[place], of_after[place]);
    }
    let saved = before.saturating_sub(after) as f64 / before.max(1) as f64 * 100.0;
    text += &format!(
        "  {saved:.1} % less (distance {} is the same board, {NETWORK} the network)\n",
        Distance::SameBoard as u8
    );
    Ok(text)
}

/// Bytes that go over each distance.
fn by_distance(traffic: &TrafficMatrix, hierarchy: &Hierarchy, ranks: &[u32]) -> [u64; NETWORK as usize + 1] {
    let mut bytes = [0; NETWORK as usize + 1];
    for (one, other, weight) in traffic.edges() {
        bytes[usize::from(hierarchy.distance(ranks[one as usize], ranks[other as usize]))] += weight;
    }
    bytes
}

fn extents(text: &str) -> Result<Extents, String> {
    let each = text.split('x').map(|extent| match extent.trim().parse() {
        Ok(extent) if extent > 0 => Ok(extent),
        _ => Err(format!("{extent:?} is no extent; write 4x4x4")),
    });
    let dims = each.collect::<Result<Vec<u32>, String>>()?;
    let ranks = dims.iter().try_fold(1_u32, |all, extent| all.checked_mul(*extent));
    match ranks {
        Some(ranks) if ranks <= 1 << 16 => Ok(Extents(dims)),
        _ => Err("a grid has at most 65536 places here".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn check(line: &str, expected: Result<&str, &str>) {
        command_line::check(line, report, expected);
    }

    #[test]
    fn the_gain_is_shown() {
        let epyc = "--machine MACHINES/epyc-2x16-nps2.txt";
        check(&format!("{epyc} --dims 4x4x4 --hosts 2 --bind scatter"), Ok("grid of 4 x 4 x 4, 1024 bytes"));
        check(&format!("{epyc} --dims 8 --bytes 1 --bind compact"), Ok("  0.0 % less"));
        check(&format!("{epyc} --dims 4x0"), Err("no extent"));
        check(&format!("{epyc} --dims 4x4 --bind 0,99"), Err("no processor 99"));
    }
}
