//! The Mann-Whitney rank test: are the times of two builds drawn from the same distribution?
//!
//! The times of both are sorted together and numbered. Equal times share the mean of their numbers. If both
//! builds are equally fast, every assignment of the numbers to the builds is equally likely. So the exact
//! probability of each sum of ranks can be counted, and no assumption about the distribution of times is
//! needed: times on a shared machine have rare and large outliers. Pure functions.

use crate::measure::results::median;

/// Largest number of times of one build that [`p_value`] takes; counting grows with the fourth power.
pub const MOST_TIMES: usize = 40;
/// Least number of times of each build with which a difference can be significant at 1 %.
pub const LEAST_TIMES: usize = 5;

/// Bounds that a difference must pass to count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Largest probability with which chance alone makes such a difference.
    pub level: f64,
    /// Smallest relative difference of the medians: 0.05 for 5 %.
    pub least_effect: f64,
}

/// Outcome of a comparison of two builds in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The new build takes less time.
    Faster,
    /// No difference beyond the noise and the least effect.
    Equal,
    /// The new build takes more time.
    Slower,
}

impl Verdict {
    /// Returns the word for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Equal => "equal",
            Verdict::Slower => "slower",
        }
    }
}

/// Returns the probability that two samples of equally fast builds differ at least as much as these, in
/// either direction. It is 1 if one of them is empty; of longer samples the first [`MOST_TIMES`] count.
pub fn p_value(before: &[f64], now: &[f64]) -> f64 {
    let (before, now) = (first(before), first(now));
    let ranks = doubled_ranks(before, now);
    let of_now = &ranks[before.len()..];
    let sums = subset_sums(&ranks, of_now.len());
    // The mean of all sums, doubled as the ranks are.
    let mean = (of_now.len() * (ranks.len() + 1)) as i64;
    let distance = |sum: usize| (sum as i64 - mean).abs();
    let observed = distance(of_now.iter().sum());
    let all: f64 = sums.iter().sum();
    let extreme = sums.iter().enumerate().filter(|(sum, _)| distance(*sum) >= observed);
    extreme.map(|(_, ways)| ways).sum::<f64>() / all
}

/// Returns the median of the times now by that of the times before: above 1 the new build is slower.
pub fn ratio(before: &[f64], now: &[f64]) -> Option<f64> {
    Some(median(now)? / median(before)?)
}

/// Returns the verdict on one series of rounds.
pub fn judge(before: &[f64], now: &[f64], bounds: Bounds) -> Verdict {
    let Some(ratio) = ratio(before, now) else { return Verdict::Equal };
    let limit = 1.0 + bounds.least_effect;
    match p_value(before, now) {
        p if p > bounds.level => Verdict::Equal,
        _ if ratio >= limit => Verdict::Slower,
        _ if ratio <= 1.0 / limit => Verdict::Faster,
        _ => Verdict::Equal,
    }
}

fn first(times: &[f64]) -> &[f64] {
    &times[..times.len().min(MOST_TIMES)]
}

/// Returns twice the rank of each time, those of `before` first: halves of shared ranks stay whole numbers.
fn doubled_ranks(before: &[f64], now: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = before.iter().chain(now).copied().collect();
    let rank = |time: &f64| {
        let smaller = all.iter().filter(|other| *other < time).count();
        let equal = all.iter().filter(|other| *other == time).count();
        2 * smaller + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Returns for each sum how many subsets of `size` ranks have it.
fn subset_sums(ranks: &[usize], size: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    // ways[k][sum]: subsets of k of the ranks seen so far.
    let mut ways = vec![vec![0.0; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (0..size).rev() {
            let (lower, upper) = ways.split_at_mut(k + 1);
            for sum in 0..=most - rank {
                upper[0][sum + rank] += lower[k][sum];
            }
        }
    }
    ways.swap_remove(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_p(before: &[f64], now: &[f64], expected: f64) {
        for (one, other) in [(before, now), (now, before)] {
            let p = p_value(one, other);
            assert!((p - expected).abs() < 1e-9, "{one:?} {other:?}: {p}, not {expected}");
        }
    }

    #[test]
    fn the_probability_is_exact() {
        // Both tails of C(6, 3) = 20 and C(10, 5) = 252 assignments.
        check_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 2.0 / 20.0);
        check_p(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 2.0 / 252.0);
        // One pair exchanged: of 20 sums 6, 7, 14 and 15 are as far from 10.5.
        check_p(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0], 4.0 / 20.0);
        check_p(&[1.0, 4.0], &[2.0, 3.0], 1.0);
        // The table of Mann and Whitney (1947) for n = m = 4 has 0.057 at U = 2, one-sided.
        check_p(&[1.0, 2.0, 3.0, 6.0], &[4.0, 5.0, 7.0, 8.0], 8.0 / 70.0);
    }

    #[test]
    fn equal_times_share_their_ranks() {
        check_p(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0], 1.0);
        check_p(&[1.0, 1.0], &[2.0, 2.0], 2.0 / 6.0);
        assert_eq!(doubled_ranks(&[1.0, 2.0], &[2.0, 3.0]), [2, 5, 5, 8]);
    }

    #[test]
    fn samples_may_be_empty_long_or_of_two_lengths() {
        check_p(&[], &[], 1.0);
        check_p(&[], &[1.0, 2.0], 1.0);
        check_p(&[1.0], &[2.0, 3.0, 4.0, 5.0], 2.0 / 5.0);
        let long: Vec<f64> = (0..100).map(f64::from).collect();
        let later: Vec<f64> = long.iter().map(|time| time + 1000.0).collect();
        assert!(p_value(&long, &later) < 1e-20);
    }

    #[test]
    fn chance_passes_the_level_as_rarely_as_it_says() {
        // A generator of its own (splitmix64), so that the test is the same everywhere.
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            // Skewed as times are: most near 1, some far above.
            1.0 / (1.0 - ((z >> 11) as f64 / (1u64 << 53) as f64) * 0.99)
        };
        let mut sample = || (0..7).map(|_| next()).collect::<Vec<f64>>();
        let extreme = (0..4000).filter(|_| p_value(&sample(), &sample()) <= 0.01).count();
        assert!(extreme <= 60, "{extreme} of 4000 at 1 %");
    }

    #[test]
    fn a_verdict_takes_significance_and_effect() {
        let check = |before: &[f64], now: &[f64], expected: Verdict| {
            let bounds = Bounds { level: 0.01, least_effect: 0.05 };
            assert_eq!(judge(before, now, bounds), expected, "{before:?} {now:?}");
        };
        let before = [1.0, 1.1, 1.2, 1.3, 1.4];
        let times = |factor: f64| before.map(|time| time * factor);
        check(&before, &times(2.0), Verdict::Slower);
        check(&times(2.0), &before, Verdict::Faster);
        // Far apart in the median, but they overlap.
        check(&before, &[1.0, 1.1, 3.0, 3.0, 3.0], Verdict::Equal);
        // Certain, but too little.
        check(&[1.0, 1.001, 1.002, 1.003, 1.004], &[1.01, 1.011, 1.012, 1.013, 1.014], Verdict::Equal);
        // Too few rounds to be certain.
        check(&[1.0, 1.0, 1.0], &[9.0, 9.0, 9.0], Verdict::Equal);
        check(&[], &[1.0], Verdict::Equal);
    }
}
