//! A column whose rows nearly always say the same: the stream, the pool, the compile context. It costs nothing until the
//! second value appears, which is the case for most traces of millions of rows.

/// A column that stores one value for all rows as long as that is enough.
#[derive(Clone, Debug)]
pub(crate) enum UniformColumn<T> {
    /// Every row says this.
    Same(Option<T>, usize),
    /// One value for each row.
    Each(Vec<T>),
}

impl<T> Default for UniformColumn<T> {
    fn default() -> Self {
        Self::Same(None, 0)
    }
}

impl<T: Copy + PartialEq> UniformColumn<T> {
    pub(crate) fn push(&mut self, value: T) {
        match self {
            Self::Each(values) => values.push(value),
            Self::Same(Some(same), len) if *same == value => *len += 1,
            Self::Same(same @ None, len) => {
                *same = Some(value);
                *len = 1;
            }
            Self::Same(Some(same), len) => {
                let mut values = Vec::with_capacity((*len + 1).next_power_of_two());
                values.resize(*len, *same);
                values.push(value);
                *self = Self::Each(values);
            }
        }
    }

    /// The value of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn get(&self, row: usize) -> T {
        match self {
            Self::Each(values) => values[row],
            Self::Same(Some(same), len) if row < *len => *same,
            Self::Same(_, len) => panic!("row {row} of a column of {len}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_vector(values in prop::collection::vec(0_u8..2, 0..20)) {
            let mut column = UniformColumn::default();
            for &value in &values {
                column.push(value);
            }
            let found: Vec<u8> = (0..values.len()).map(|row| column.get(row)).collect();
            prop_assert_eq!(found, values);
        }
    }
}
