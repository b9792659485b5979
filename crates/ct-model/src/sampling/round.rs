//! Controlled rounding: whole numbers for a table of shares, each its share rounded down or up, with the sums kept.
//!
//! Rows have `rows[p]`, columns `columns[s]`, both sum to M, and the exact cell is `rows[p] × columns[s] / M`. Cells
//! start rounded down; what they lack is their remainder, out of M. Cells with a remainder are the edges of a graph
//! between rows and columns, added one by one. As soon as one closes a cycle, the remainders along it are shifted,
//! alternately up and down, which changes no sum, until one of them is 0 (the cell stays down) or M (it goes up), and
//! that edge is gone. So the graph stays a forest. At the end every node's remainders sum to a multiple of M, so no
//! node has just one edge, and a forest without such nodes has no edges: all cells are decided.
//!
//! Either direction of a shift is possible. Taking it with a chance that is inverse to its length leaves the expected
//! value of every cell at its exact share, so that no trajectory is likelier than another to be drawn.
//!
//! Cost: at most one shift per cell, each a search in a forest of fewer than 3 × rows edges (a finished column has
//! none or at least two, the one being filled has at most one for each row).

use std::iter;

/// One cell that is not decided.
struct Edge {
    row: usize,
    column: usize,
    /// Above 0 and below M.
    remainder: u64,
}

/// Rounds the table. `decide(up, down)` says whether to shift upwards (true, meant to have the chance
/// down / (up + down)), where `up` and `down` are how far either shift would go.
pub(super) fn round(
    rows: &[u64],
    columns: &[u64],
    mut decide: impl FnMut(u64, u64) -> bool,
) -> Vec<Vec<u64>> {
    let total: u64 = rows.iter().sum();
    debug_assert_eq!(total, columns.iter().sum::<u64>(), "rows and columns are the same things");
    let mut cells = vec![vec![0; columns.len()]; rows.len()];
    let mut edges: Vec<Edge> = Vec::new();
    for (column, of_column) in columns.iter().enumerate() {
        for (row, of_row) in rows.iter().enumerate() {
            if total == 0 {
                continue;
            }
            let product = u128::from(*of_row) * u128::from(*of_column);
            // At most `of_row`, and below `total`: both fit.
            cells[row][column] = (product / u128::from(total)) as u64;
            let remainder = (product % u128::from(total)) as u64;
            if remainder == 0 {
                continue;
            }
            let path = path(&edges, row, column);
            edges.push(Edge { row, column, remainder });
            if let Some(path) = path {
                shift(&mut edges, &path, total, &mut decide);
                edges.retain(|edge| {
                    if edge.remainder == total {
                        cells[edge.row][edge.column] += 1;
                    }
                    edge.remainder != 0 && edge.remainder != total
                });
            }
        }
    }
    debug_assert!(edges.is_empty(), "no forest has only nodes of two and more edges");
    cells
}

/// Shifts the cycle of the last edge and the path between its ends.
fn shift(edges: &mut [Edge], path: &[usize], total: u64, decide: &mut impl FnMut(u64, u64) -> bool) {
    let last = edges.len() - 1;
    // Around the cycle, starting with the last edge: up, down, up, …
    let cycle: Vec<usize> = [last].into_iter().chain(path.iter().copied()).collect();
    let (mut up, mut down) = (u64::MAX, u64::MAX);
    for (i, edge) in cycle.iter().enumerate() {
        let (to_ceiling, to_floor) = (total - edges[*edge].remainder, edges[*edge].remainder);
        let (with, against) = if i % 2 == 0 { (to_ceiling, to_floor) } else { (to_floor, to_ceiling) };
        up = up.min(with);
        down = down.min(against);
    }
    let is_up = decide(up, down);
    let by = if is_up { up } else { down };
    for (i, edge) in cycle.iter().enumerate() {
        let remainder = &mut edges[*edge].remainder;
        *remainder = if (i % 2 == 0) == is_up { *remainder + by } else { *remainder - by };
    }
}

/// The edges from the row to the column, in order, if they are connected. `edges` is sorted by column.
fn path(edges: &[Edge], row: usize, column: usize) -> Option<Vec<usize>> {
    // For each row its last edge, for each edge the one before it in its row.
    let rows = edges.iter().map(|edge| edge.row + 1).max().unwrap_or(0);
    let mut last_of_row: Vec<Option<usize>> = vec![None; rows];
    let mut before_in_row: Vec<Option<usize>> = vec![None; edges.len()];
    for (i, edge) in edges.iter().enumerate() {
        before_in_row[i] = last_of_row[edge.row].replace(i);
    }
    // From row to row: a reached edge, with the edge it was reached from. In a forest none is reached twice.
    let mut before: Vec<Option<usize>> = vec![None; edges.len()];
    let mut open: Vec<(usize, Option<usize>)> = vec![(row, None)];
    while let Some((row, by)) = open.pop() {
        let of_row = iter::successors(last_of_row.get(row).copied().flatten(), |edge| before_in_row[*edge]);
        for out in of_row.filter(|out| Some(*out) != by) {
            before[out] = by;
            let through = edges[out].column;
            if through == column {
                let mut path: Vec<usize> = iter::successors(Some(out), |edge| before[*edge]).collect();
                path.reverse();
                return Some(path);
            }
            let start = edges.partition_point(|edge| edge.column < through);
            let of_column = edges[start..].iter().take_while(|edge| edge.column == through);
            for (i, edge) in (start..).zip(of_column).filter(|(i, _)| *i != out) {
                before[i] = Some(out);
                open.push((edge.row, Some(i)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(rows: &[u64], columns: &[u64], cells: &[Vec<u64>]) {
        let total: u128 = rows.iter().map(|n| u128::from(*n)).sum();
        for (p, row) in cells.iter().enumerate() {
            assert_eq!(row.iter().sum::<u64>(), rows[p], "row {p} of {cells:?}");
            for (s, cell) in row.iter().enumerate() {
                let exact = u128::from(rows[p]) * u128::from(columns[s]);
                let got = u128::from(*cell) * total;
                assert!(exact.abs_diff(got) < total.max(1), "cell {p},{s} of {cells:?}");
            }
        }
        for (s, column) in columns.iter().enumerate() {
            assert_eq!(cells.iter().map(|row| row[s]).sum::<u64>(), *column, "column {s} of {cells:?}");
        }
    }

    #[test]
    fn leaves_whole_shares_alone() {
        let cells = round(&[2, 4], &[3, 3], |_, _| panic!("nothing to decide"));
        assert_eq!(cells, [[1, 1], [2, 2]]);
        assert_eq!(round(&[0, 0], &[], |_, _| true), [[0_u64; 0]; 2]);
        assert_eq!(round(&[0, 5], &[2, 3], |_, _| true), [[0, 0], [2, 3]]);
    }

    /// Walks every sequence of decisions with its chance: the expected value of each cell must be its exact share.
    #[test]
    fn no_cell_is_favoured() {
        for (rows, columns) in
            [(vec![1, 2, 4], vec![2, 2, 3]), (vec![2, 3], vec![1, 1, 1, 2]), (vec![1, 1, 1], vec![1, 2])]
        {
            let total: u64 = rows.iter().sum();
            let mut expected = vec![vec![0.0; columns.len()]; rows.len()];
            let mut open: Vec<Vec<bool>> = vec![Vec::new()];
            let mut chances = 0.0;
            while let Some(prefix) = open.pop() {
                let (mut chance, mut made) = (1.0, Vec::new());
                let cells = round(&rows, &columns, |up, down| {
                    let is_up = *prefix.get(made.len()).unwrap_or(&true);
                    chance *= (if is_up { down } else { up }) as f64 / (up + down) as f64;
                    made.push(is_up);
                    is_up
                });
                for i in prefix.len()..made.len() {
                    open.push(made[..i].iter().copied().chain([false]).collect());
                }
                chances += chance;
                for (sum, cell) in expected.iter_mut().flatten().zip(cells.iter().flatten()) {
                    *sum += chance * *cell as f64;
                }
            }
            assert!((chances - 1.0).abs() < 1e-9, "{chances}");
            for (p, row) in expected.iter().enumerate() {
                for (s, mean) in row.iter().enumerate() {
                    let exact = (rows[p] * columns[s]) as f64 / total as f64;
                    assert!((mean - exact).abs() < 1e-9, "cell {p},{s}: {mean} instead of {exact}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn sums_are_kept_and_cells_are_off_by_less_than_one(
            columns in prop::collection::vec(0_u64..50, 1..30),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            decisions in prop::collection::vec(any::<bool>(), 300),
        ) {
            let total: u64 = columns.iter().sum();
            let mut ends: Vec<u64> = cuts.iter().map(|cut| cut.index(total as usize + 1) as u64).collect();
            ends.push(total);
            ends.sort_unstable();
            let rows: Vec<u64> = (0..ends.len()).map(|i| ends[i] - if i == 0 { 0 } else { ends[i - 1] }).collect();
            let mut decisions = decisions.into_iter();
            let cells = round(&rows, &columns, |up, down| {
                assert!(up > 0 && down > 0);
                decisions.next().expect("at most one decision per cell")
            });
            check(&rows, &columns, &cells);
        }
    }
}
