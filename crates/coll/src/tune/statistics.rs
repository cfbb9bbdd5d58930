//! Summary of the samples of one alternative.

/// Filter for samples that other activity has disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The paper's filter (barigou-2016, section 2.3). Samples over three times the least are outliers. If
    /// fewer than a fifth are, they are left out of the mean.
    Paper,
    /// The median of the samples.
    #[default]
    Median,
    /// The mean of all samples.
    None,
}

/// Ratio to the least sample above which a sample is an outlier.
const OUTLIER: u64 = 3;
/// Reciprocal of the share of outliers from which on they are not left out.
const FEW: usize = 5;

/// Returns one number for all samples, or `None` if there are none.
pub fn summary(samples: &[u64], filter: Filter) -> Option<f64> {
    let least = *samples.iter().min()?;
    match filter {
        Filter::None => Some(mean(samples.iter())),
        Filter::Median => Some(median(samples)),
        Filter::Paper => {
            let usual = |sample: &&u64| **sample <= least.saturating_mul(OUTLIER);
            let outliers = samples.len() - samples.iter().filter(usual).count();
            let few = outliers * FEW < samples.len();
            Some(if few { mean(samples.iter().filter(usual)) } else { mean(samples.iter()) })
        }
    }
}

fn mean<'a>(samples: impl Iterator<Item = &'a u64> + Clone) -> f64 {
    let number = samples.clone().count() as f64;
    samples.map(|sample| *sample as f64).sum::<f64>() / number
}

fn median(samples: &[u64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half] as f64,
        _ => (sorted[half - 1] as f64 + sorted[half] as f64) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[u64], filter: Filter, expected: Option<f64>) {
        assert_eq!(summary(samples, filter), expected, "{samples:?} {filter:?}");
    }

    #[test]
    fn outliers_are_left_out_where_they_are_few() {
        check(&[], Filter::Paper, None);
        check(&[7], Filter::Paper, Some(7.0));
        check(&[10, 10, 10, 10, 10, 31], Filter::Paper, Some(10.0));
        check(&[10, 10, 10, 10, 10, 30], Filter::Paper, Some(80.0 / 6.0));
        check(&[10, 10, 10, 10, 100], Filter::Paper, Some(28.0));
        check(&[10, 100], Filter::Paper, Some(55.0));
        check(&[1, 2, 90], Filter::Median, Some(2.0));
        check(&[1, 2, 4, 90], Filter::Median, Some(3.0));
        check(&[1, 2, 90], Filter::None, Some(31.0));
    }
}
