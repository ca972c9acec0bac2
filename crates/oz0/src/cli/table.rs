//! Rows for people: columns as wide as they need to be.

/// A table without lines around it.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut all = vec![heads.map(str::to_owned)];
    all.extend(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["a".to_owned(), "long one".to_owned()], ["bcd".to_owned(), String::new()]];
        assert_eq!(table(["x", "y"], rows), "x    y\na    long one\nbcd\n");
    }
}
