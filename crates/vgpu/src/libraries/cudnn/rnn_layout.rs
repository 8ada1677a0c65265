//! Where the weights of a recurrent network lie in their one buffer, and how large the buffer is.
//!
//! The matrices of all layers come first, those of the input before the recurrent ones and a projection after both;
//! then all biases in the same order. PyTorch relies on the gates of one matrix following each other.

/// What a recurrent network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Network {
    /// `cudnnRNNMode_t`: 0 and 1 plain, 2 LSTM, 3 GRU.
    pub(super) cell: i32,
    /// `cudnnRNNBiasMode_t`: 0 none, 1 at the input, 2 both, 3 recurrent.
    pub(super) bias: i32,
    /// Two directions instead of one.
    pub(super) bidirectional: bool,
    /// The first layer adds its input instead of multiplying it.
    pub(super) skips_input: bool,
    pub(super) data_type: i32,
    pub(super) input: u64,
    pub(super) hidden: u64,
    /// Size of the projected state, which is the hidden size when there is no projection.
    pub(super) projection: u64,
    pub(super) layers: u64,
}

/// A matrix or bias, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
}

impl Network {
    pub(super) fn gates(&self) -> u64 {
        match self.cell {
            2 => 4,
            3 => 3,
            _ => 1,
        }
    }

    pub(super) fn directions(&self) -> u64 {
        1 + u64::from(self.bidirectional)
    }

    /// Layers times directions.
    pub(super) fn pseudo_layers(&self) -> u64 {
        self.layers * self.directions()
    }

    fn projects(&self) -> bool {
        self.projection != self.hidden
    }

    /// Columns of an input matrix of a pseudo-layer; 0 when it has none.
    fn input_columns(&self, layer: u64) -> u64 {
        match layer / self.directions() {
            0 if self.skips_input => 0,
            0 => self.input,
            _ => self.projection * self.directions(),
        }
    }

    /// Elements of all matrices of a pseudo-layer.
    fn matrix_elements(&self, layer: u64) -> u64 {
        let gates = self.gates() * self.hidden * (self.input_columns(layer) + self.projection);
        gates
            + if self.projects() {
                self.projection * self.hidden
            } else {
                0
            }
    }

    /// How many bias vectors each gate has.
    fn biases(&self) -> u64 {
        match self.bias {
            0 => 0,
            2 => 2,
            _ => 1,
        }
    }

    /// Elements of the whole buffer.
    pub(super) fn elements(&self) -> u64 {
        let matrices: u64 = (0..self.pseudo_layers())
            .map(|layer| self.matrix_elements(layer))
            .sum();
        matrices + self.pseudo_layers() * self.biases() * self.gates() * self.hidden
    }

    /// The matrix of a gate; the ids count the input's gates, the recurrent ones, then the projection.
    pub(super) fn matrix(&self, layer: u64, id: u64) -> Option<Piece> {
        if layer >= self.pseudo_layers() {
            return None;
        }
        let start: u64 = (0..layer).map(|layer| self.matrix_elements(layer)).sum();
        let (gates, columns) = (self.gates(), self.input_columns(layer));
        let recurrent = start + gates * self.hidden * columns;
        let piece = if id < gates {
            Piece {
                offset: start + id * self.hidden * columns,
                rows: self.hidden,
                columns,
            }
        } else if id < 2 * gates {
            let offset = recurrent + (id - gates) * self.hidden * self.projection;
            Piece {
                offset,
                rows: self.hidden,
                columns: self.projection,
            }
        } else {
            let offset = recurrent + gates * self.hidden * self.projection;
            Piece {
                offset,
                rows: if self.projects() { self.projection } else { 0 },
                columns: self.hidden,
            }
        };
        (id <= 2 * gates && piece.rows * piece.columns > 0).then_some(piece)
    }

    /// The bias of a gate.
    pub(super) fn bias(&self, layer: u64, id: u64) -> Option<Piece> {
        let gates = self.gates();
        let at_input = id < gates;
        let slot = match (self.bias, at_input) {
            (1, true) | (2, _) => id,
            (3, false) => id.checked_sub(gates)?,
            _ => return None,
        };
        if layer >= self.pseudo_layers() || id >= 2 * gates {
            return None;
        }
        let matrices: u64 = (0..self.pseudo_layers())
            .map(|layer| self.matrix_elements(layer))
            .sum();
        let offset = matrices + (layer * self.biases() * gates + slot) * self.hidden;
        Some(Piece {
            offset,
            rows: self.hidden,
            columns: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LSTM: Network = Network {
        cell: 2,
        bias: 2,
        bidirectional: false,
        skips_input: false,
        data_type: 0,
        input: 10,
        hidden: 20,
        projection: 20,
        layers: 2,
    };

    #[test]
    fn holds_as_many_numbers_as_the_formulas_of_the_cells() {
        let check = |network: Network, expected: u64| {
            assert_eq!(network.elements(), expected, "{network:?}");
        };
        check(LSTM, 4 * 20 * (10 + 20 + 2) + 4 * 20 * (20 + 20 + 2));
        check(
            Network { bias: 0, ..LSTM },
            4 * 20 * (10 + 20) + 4 * 20 * (20 + 20),
        );
        check(
            Network {
                cell: 3,
                layers: 1,
                ..LSTM
            },
            3 * 20 * (10 + 20 + 2),
        );
        check(
            Network {
                cell: 0,
                layers: 1,
                ..LSTM
            },
            20 * (10 + 20 + 2),
        );
        check(
            Network {
                bidirectional: true,
                ..LSTM
            },
            2 * 4 * 20 * (10 + 20 + 2) + 2 * 4 * 20 * (40 + 20 + 2),
        );
        check(
            Network {
                projection: 5,
                layers: 1,
                ..LSTM
            },
            4 * 20 * (10 + 5 + 2) + 5 * 20,
        );
        check(
            Network {
                skips_input: true,
                layers: 1,
                ..LSTM
            },
            4 * 20 * (20 + 2),
        );
    }

    #[test]
    fn pieces_fill_the_buffer_without_overlap() {
        let projected = Network {
            projection: 5,
            bidirectional: true,
            ..LSTM
        };
        for network in [
            LSTM,
            projected,
            Network { cell: 3, ..LSTM },
            Network { bias: 1, ..LSTM },
        ] {
            let ids = || {
                (0..network.pseudo_layers())
                    .flat_map(|layer| (0..=2 * network.gates()).map(move |id| (layer, id)))
            };
            let mut pieces: Vec<Piece> = ids()
                .filter_map(|(layer, id)| network.matrix(layer, id))
                .collect();
            pieces.extend(ids().filter_map(|(layer, id)| network.bias(layer, id)));
            let mut end = 0;
            for piece in pieces {
                assert_eq!(piece.offset, end, "{network:?}");
                end += piece.rows * piece.columns;
            }
            assert_eq!(end, network.elements());
        }
    }
}
