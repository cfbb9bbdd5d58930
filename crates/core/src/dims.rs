//! Balanced grids of processes (`MPI_Dims_create`, MPI-5 section 8.5.2).

use tutti_base::{Error, ErrorClass, Result};

/// Fills the zeros of `dims` so that the product of all is `processes`. The chosen values are as close to
/// one another as possible and do not increase.
///
/// # Errors
/// Returns `Dims` if an entry is negative, or if the given entries do not divide the number of processes.
/// Returns `Arg` if that number is not positive.
pub fn fill(processes: i32, dims: &mut [i32]) -> Result<()> {
    if processes < 1 {
        return Err(Error::new(ErrorClass::Arg, format!("argument nnodes is {processes}; give 1 or more")));
    }
    if let Some(place) = dims.iter().position(|dim| *dim < 0) {
        let reason = format!("argument dims[{place}] is {}; give 0 to have it chosen", dims[place]);
        return Err(Error::new(ErrorClass::Dims, reason));
    }
    let given = dims.iter().filter(|dim| **dim > 0).try_fold(1i64, |all, dim| {
        all.checked_mul(i64::from(*dim)).filter(|all| i64::from(processes) % all == 0)
    });
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let rest = given.map(|given| i64::from(processes) / given).filter(|rest| free > 0 || *rest == 1);
    let Some(rest) = rest else {
        let reason = format!("argument dims: its entries {dims:?} do not divide into {processes} processes");
        return Err(Error::new(ErrorClass::Dims, reason));
    };
    let mut chosen = balanced(rest as u32, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = chosen.next().expect("as many factors as free dimensions") as i32;
    }
    Ok(())
}

/// Returns `count` factors of `product`, not increasing. The difference between the largest and the
/// smallest is minimal. Among equal ones the result with the largest smallest factor wins, then the next
/// one.
fn balanced(product: u32, count: usize) -> Vec<u32> {
    let mut best = None;
    if count > 0 {
        search(product, count, &divisors(product), &mut Vec::with_capacity(count), &mut best);
    }
    let mut factors = best.unwrap_or_default();
    factors.reverse();
    factors
}

/// Extends the chosen factors by `count` factors of `product`, not decreasing. Tries all ways that may give
/// a smaller difference than the best so far, larger factors first.
fn search(product: u32, count: usize, divisors: &[u32], chosen: &mut Vec<u32>, best: &mut Option<Vec<u32>>) {
    let least = chosen.last().copied().unwrap_or(1);
    let all = u64::from(product);
    // Product of the remaining factors if all were this one.
    let power = |factor: u32| u64::from(factor).checked_pow(count as u32).unwrap_or(u64::MAX);
    let fits = |factor: &u32| *factor >= least && power(*factor) <= all && product.is_multiple_of(*factor);
    for factor in divisors.iter().rev().copied().filter(fits) {
        let smallest = chosen.first().copied().unwrap_or(factor);
        let bound = best.as_deref().map(|best| (smallest + difference(best)).saturating_sub(1));
        if bound.is_some_and(|largest| largest < smallest || power(largest) < all) {
            continue;
        }
        chosen.push(factor);
        if count > 1 {
            search(product / factor, count - 1, divisors, chosen, best);
        } else if product == factor
            && best.as_deref().map(difference).is_none_or(|least| difference(chosen) < least)
        {
            *best = Some(chosen.clone());
        }
        chosen.pop();
    }
}

/// Returns the difference between the last and the first of sorted factors.
fn difference(factors: &[u32]) -> u32 {
    factors.last().zip(factors.first()).map_or(0, |(last, first)| last - first)
}

/// Returns all divisors in increasing order.
fn divisors(product: u32) -> Vec<u32> {
    let small = (1..).take_while(|divisor| u64::from(*divisor).pow(2) <= product.into());
    let low: Vec<u32> = small.filter(|divisor| product.is_multiple_of(*divisor)).collect();
    let high = low.iter().rev().map(|divisor| product / divisor).filter(|high| !low.contains(high));
    let high: Vec<u32> = high.collect();
    [low, high].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(processes: i32, dims: &[i32], expected: std::result::Result<&[i32], ErrorClass>) {
        let mut filled = dims.to_vec();
        let got = fill(processes, &mut filled).map(|()| &filled[..]);
        assert_eq!(got.map_err(|error| error.class), expected, "{processes} over {dims:?}");
    }

    #[test]
    fn grids_are_balanced() {
        check(6, &[0, 0], Ok(&[3, 2]));
        check(7, &[0, 0], Ok(&[7, 1]));
        check(6, &[0, 3, 0], Ok(&[2, 3, 1]));
        check(16, &[0, 0, 0], Ok(&[4, 2, 2]));
        check(6240, &[0, 0, 0], Ok(&[26, 16, 15]));
        check(7488, &[0, 0, 0], Ok(&[26, 18, 16]));
        check(1396755360, &[0; 5], Ok(&[76, 68, 66, 65, 63]));
        check(223092870, &[0; 9], Ok(&[23, 19, 17, 13, 11, 7, 5, 3, 2]));
        check(4096, &[0, 0, 0], Ok(&[16, 16, 16]));
        check(1 << 30, &[0; 12], Ok(&[8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4]));
        check(i32::MAX, &[0, 0], Ok(&[i32::MAX, 1]));
        check(1, &[0; 40], Ok(&[1; 40]));
        check(4, &[2, 2], Ok(&[2, 2]));
        check(1, &[], Ok(&[]));
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        check(7, &[0, 3], Err(ErrorClass::Dims));
        check(8, &[2, 2], Err(ErrorClass::Dims));
        check(2, &[], Err(ErrorClass::Dims));
        check(4, &[-1, 0], Err(ErrorClass::Dims));
        check(0, &[0], Err(ErrorClass::Arg));
        check(4, &[i32::MAX, i32::MAX, i32::MAX, 0], Err(ErrorClass::Dims));
    }
}
