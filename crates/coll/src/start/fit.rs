//! Costs from runs: least squares of the relative errors, no cost below zero. A cost that the runs do not
//! determine stays near the assumed one.

/// Weight of the assumed costs against the runs.
const ASSUMPTION: f64 = 1e-9;
/// Share of the runs' times, as the root of the mean square, from which on a cost is determined by the runs.
const TOLD: f64 = 0.005;
/// Steps of the descent, and the change at which it ends.
const STEPS: usize = 200_000;
const SETTLED: f64 = 1e-12;

/// Costs fitted to runs, with their error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted<const N: usize> {
    /// Costs of the terms, in their order.
    pub costs: [f64; N],
    /// True for each cost that the runs determine; the others are assumed.
    pub told: [bool; N],
    /// Root of the mean square of the relative errors of the runs.
    pub error: f64,
}

/// Returns the costs that best explain `rows` (the multiplicity of each term, and the measured value).
///
/// In units of the assumed costs, with x the wanted costs: minimal |A x - 1|^2 + a |x - 1|^2 for x >= 0. A
/// row of A has its terms divided by the measured value. The method is coordinate descent on the normal
/// equations, for few terms and any number of rows.
pub fn fit<const N: usize>(rows: &[([f64; N], f64)], assumed: &[f64; N]) -> Fitted<N> {
    let scaled: Vec<[f64; N]> = rows
        .iter()
        .map(|(terms, measured)| std::array::from_fn(|k| terms[k] * assumed[k] / measured))
        .collect();
    let weight = ASSUMPTION * rows.len().max(1) as f64;
    let product = |i: usize, k: usize| scaled.iter().map(|row| row[i] * row[k]).sum::<f64>();
    let mut matrix: [[f64; N]; N] = std::array::from_fn(|i| std::array::from_fn(|k| product(i, k)));
    let mut right: [f64; N] = std::array::from_fn(|k| scaled.iter().map(|row| row[k]).sum());
    for k in 0..N {
        matrix[k][k] += weight;
        right[k] += weight;
    }
    let mut x = [1.0; N];
    for _ in 0..STEPS {
        let mut change: f64 = 0.0;
        for k in 0..N {
            let others: f64 = (0..N).filter(|&i| i != k).map(|i| matrix[k][i] * x[i]).sum();
            let next = ((right[k] - others) / matrix[k][k]).max(0.0);
            change = change.max((next - x[k]).abs());
            x[k] = next;
        }
        if change < SETTLED {
            break;
        }
    }
    let runs = rows.len().max(1) as f64;
    let part = |k: usize| (scaled.iter().map(|row| (row[k] * x[k]).powi(2)).sum::<f64>() / runs).sqrt();
    let told = std::array::from_fn(|k| part(k) > TOLD);
    let errors = scaled.iter().map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum::<f64>() - 1.0);
    let error = (errors.map(|error| error * error).sum::<f64>() / runs).sqrt();
    Fitted { costs: std::array::from_fn(|k| x[k] * assumed[k]), told, error }
}
