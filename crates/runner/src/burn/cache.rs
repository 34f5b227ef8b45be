//! The keys and values of one sequence, so that appending a token computes one row and not the whole text again.
//!
//! Each layer has one tensor of keys and one of values, with room for more positions than are in use. Appending
//! writes in place. A fork clones the handles; the side that appends first pays for a copy of the layer's tensors.
//! Truncation changes only the length, which belongs to the sequence. Growth by doubling keeps the cost of copies
//! linear in the text. Tried instead: room for the whole context from the start. At a context of 131072 a short
//! question then reserves gigabytes, and every fork copies them.
//!
//! Keys are kept transposed, `[heads, head_dim, room]`: the product of a query with the keys then runs along
//! contiguous memory. Tried instead: keys as `[heads, room, head_dim]`. The speed is the same at short lengths, and a
//! step is 20 to 30 % slower at 8000 positions.

use ::burn::tensor::{Bool, Device, Tensor, TensorData, activation, s};

use super::decoder::{Attention, soft_cap};
use crate::cache::View;
use crate::config::ModelConfig;

/// The room, in positions, that the first write to a cache makes.
const FIRST_ROOM: usize = 64;

/// The keys and values of one sequence. The sequence knows the number of positions in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    /// Empty until the first append.
    layers: Vec<LayerCache>,
    /// Room of each layer, in positions.
    room: usize,
}

#[derive(Clone, Debug)]
struct LayerCache {
    /// `[key_value_heads, head_dim, room]`
    keys: Tensor<3>,
    /// `[key_value_heads, room, head_dim]`
    values: Tensor<3>,
}

/// New positions of one sequence; `start` positions come before them.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    start: usize,
    len: usize,
    /// The masks of the windows so far.
    masks: Vec<(Option<usize>, Tensor<3, Bool>)>,
}

impl Run {
    /// The run of the positions `start..end`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, len: end - start, masks: Vec::new() }
    }

    fn end(&self) -> usize {
        self.start + self.len
    }

    /// True where a row of a layer must not look, `[1, group * len, end - first]`, from the first position on that any
    /// row sees. `None` for a single new position, which sees all of these. The rows are those of the product in
    /// [`Cache::attend`].
    fn hidden(&mut self, view: View, group: usize, device: &Device) -> Option<Tensor<3, Bool>> {
        if self.len == 1 {
            return None;
        }
        if let Some((_, known)) = self.masks.iter().find(|(window, _)| *window == view.window) {
            return Some(known.clone());
        }
        let first = view.first(self.start);
        let width = self.end() - first;
        let mut hidden = vec![true; group * self.len * width];
        for (row, columns) in hidden.chunks_exact_mut(width).enumerate() {
            let position = self.start + row % self.len;
            columns[view.first(position) - first..position + 1 - first].fill(false);
        }
        let hidden = Tensor::from_data(TensorData::new(hidden, [1, group * self.len, width]), device);
        self.masks.push((view.window, hidden.clone()));
        Some(hidden)
    }
}

impl Cache {
    /// Makes room for `positions` in all layers. The caller has checked that `positions` is at most `config`'s context.
    pub(crate) fn reserve(&mut self, positions: usize, config: &ModelConfig, device: &Device) {
        if positions <= self.room {
            return;
        }
        let room = positions.max(2 * self.room).max(FIRST_ROOM).min(config.context_len());
        let (heads, width) = (config.num_key_value_heads, config.head_dim);
        let old = self.room;
        let empty = || LayerCache {
            keys: Tensor::zeros([heads, width, room], device),
            values: Tensor::zeros([heads, room, width], device),
        };
        if self.layers.is_empty() {
            self.layers = (0..config.num_hidden_layers).map(|_| empty()).collect();
        } else {
            for layer in &mut self.layers {
                let fresh = empty();
                *layer = LayerCache {
                    keys: fresh.keys.slice_assign(s![.., .., 0..old], layer.keys.clone()),
                    values: fresh.values.slice_assign(s![.., 0..old, ..], layer.values.clone()),
                };
            }
        }
        self.room = room;
    }

    /// Stores the keys and values of a run in one layer and returns the attention's output for its queries,
    /// `[len, heads * head_dim]`. There must be room.
    pub(crate) fn attend(&mut self, view: View, run: &mut Run, attention: Attention) -> Tensor<2> {
        let Attention { queries, keys, values } = attention;
        let [len, heads, width] = queries.dims();
        let shared = keys.dims()[1];
        let group = heads / shared;
        let (start, end, first) = (run.start, run.end(), view.first(run.start));
        debug_assert!(len == run.len && end <= self.room);

        let cache = &mut self.layers[view.layer];
        cache.keys.inplace(|all| all.slice_assign(s![.., .., start..end], keys.permute([1, 2, 0])));
        cache.values.inplace(|all| all.slice_assign(s![.., start..end, ..], values.swap_dims(0, 1)));

        // Query heads that share a key head become rows of one product, one head after the other.
        let queries = if len == 1 {
            queries.reshape([shared, group, width])
        } else {
            let split = queries.reshape([len, shared, group, width]);
            split.permute([1, 2, 0, 3]).reshape([shared, group * len, width])
        };
        let device = queries.device();
        let mut scores = queries.matmul(cache.keys.clone().narrow(2, first, end - first));
        if let Some(cap) = view.cap {
            scores = soft_cap(cap, scores);
        }
        if let Some(hidden) = run.hidden(view, group, &device) {
            let hidden = hidden.expand([shared, group * len, end - first]);
            scores = scores.mask_fill(hidden, f32::NEG_INFINITY);
        }
        let mixed = activation::softmax(scores, 2).matmul(cache.values.clone().narrow(1, first, end - first));
        if len == 1 {
            mixed.reshape([1, heads * width])
        } else {
            let split = mixed.reshape([shared, group, len, width]);
            split.permute([2, 0, 1, 3]).reshape([len, heads * width])
        }
    }
}
