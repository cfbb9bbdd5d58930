//! Parser of `PMI_process_mapping`, which lists the host of each rank. `(vector,(FIRST,HOSTS,RANKS),...)`
//! puts RANKS consecutive ranks on each of HOSTS hosts from FIRST on. The list is repeated while ranks are
//! left.

/// Consecutive ranks on one host: the host and the number of ranks.
pub type RankRun = (u32, u32);

/// Maximum number of blocks that are read. A starter with more of them lists each rank separately.
const BLOCKS: usize = 1 << 20;

/// Returns the runs `(host, ranks)` of `ranks` ranks in rank order; `None` for another kind of text.
pub fn parse(text: &str, ranks: u32) -> Option<Vec<RankRun>> {
    let text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    let blocks = text.strip_prefix("(vector,")?.strip_suffix(')')?;
    let blocks: Vec<[u32; 3]> = blocks
        .strip_prefix('(')?
        .strip_suffix(')')?
        .split("),(")
        .take(BLOCKS)
        .map(block)
        .collect::<Option<_>>()?;
    let mut runs: Vec<RankRun> = Vec::new();
    let mut left = ranks;
    while left > 0 {
        for &[first, hosts, each] in &blocks {
            for host in 0..hosts {
                let run = each.min(left);
                if run == 0 {
                    break;
                }
                left -= run;
                let host = first.checked_add(host)?;
                match runs.last_mut() {
                    Some((last, count)) if *last == host => *count += run,
                    _ => runs.push((host, run)),
                }
            }
        }
    }
    Some(runs)
}

/// Parses a block `FIRST,HOSTS,RANKS`.
fn block(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.split(',').map(|number| number.parse().ok());
    let block = [numbers.next()??, numbers.next()??, numbers.next()??];
    // A block without ranks would make the loop endless.
    (numbers.next().is_none() && block[1] > 0 && block[2] > 0).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mappings_are_read_or_refused() {
        let check = |text, ranks, expected: Option<&[RankRun]>| {
            assert_eq!(parse(text, ranks).as_deref(), expected, "{text}")
        };
        check("(vector,(0,1,4))", 4, Some(&[(0, 4)]));
        check("(vector,(0,2,2))", 4, Some(&[(0, 2), (1, 2)]));
        check("(vector,(0,2,2))", 3, Some(&[(0, 2), (1, 1)]));
        check("(vector,(0,2,1))", 5, Some(&[(0, 1), (1, 1), (0, 1), (1, 1), (0, 1)]));
        check("(vector,(0,1,1))", 5, Some(&[(0, 5)]));
        check("(vector, (1,1,2), (0,1,1))", 3, Some(&[(1, 2), (0, 1)]));
        check("(vector,(0,1,4)", 4, None);
        check("(vector,(0,1))", 4, None);
        check("(vector,(0,0,4))", 4, None);
        check("(vector,(0,1,0))", 4, None);
        check("(vector,(4294967295,2,1))", 4, None);
        check("(vector,)", 4, None);
        check("", 4, None);
    }

    proptest! {
        #[test]
        fn any_text_ends(text in "[(),a-z0-9 ]{0,40}", ranks in 0u32..1000) {
            let runs = parse(&text, ranks);
            prop_assert!(runs.is_none_or(|runs| runs.iter().map(|run| run.1).sum::<u32>() == ranks));
        }
    }
}
