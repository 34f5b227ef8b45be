//! Figures as text: percentiles, amounts with three significant digits, and reasons in one line.

/// Three significant digits and thousands.
pub(crate) fn amount(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    thousands(value, decimals)
}

/// Groups of three digits with commas, and so many decimals.
pub(crate) fn thousands(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index) % 3 == 0 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Cells: how many, mean and percentiles of sorted numbers, in units of `unit`.
pub(crate) fn distribution(sorted: &[u64], unit: f64) -> String {
    if sorted.is_empty() {
        return "0 | - | - | - | - | - | -".into();
    }
    let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
    let mut cells = vec![sorted.len().to_string(), amount(mean / unit)];
    for permille in [500, 900, 990, 999, 1000] {
        cells.push(amount(percentile(sorted, permille) as f64 / unit));
    }
    cells.join(" | ")
}

/// The nearest rank.
pub(crate) fn percentile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted[rank - 1]
}

/// A reason in one short line.
pub(crate) fn brief(reason: &str) -> String {
    let line: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = line.char_indices().nth(100).map_or(line.len(), |(at, _)| at);
    let dots = if cut < line.len() { "..." } else { "" };
    format!("{}{dots}", &line[..cut]).replace('|', "\\|").replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!([500, 900, 990, 999, 1000].map(|at| percentile(&sorted, at)), [100, 180, 198, 200, 200]);
        assert_eq!(percentile(&[7], 500), 7);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(["1,234,567", "-1,000"], [thousands(1_234_567.0, 0), thousands(-1000.0, 0)]);
        assert_eq!(["0.12", "12.3", "123", "12,346"], [0.123, 12.34, 123.4, 12_345.6].map(amount));
        assert_eq!(thousands(-100.0, 1), "-100.0");
    }
}
