//! The arithmetic of a pass on the CPU, in the order of the parts:
//!
//! | file | content |
//! |---|---|
//! | `kernel` | the inner loop of every product: some rows of inputs times one panel of 32 columns |
//! | `pack` | weights in panels, packed from the rows of a tensor |
//! | `matrix` | matrices as a checkpoint stores them or in eight bits, and their products on threads |
//! | `blocks` | weights in the blocks of ggml: their values, and those that are eight bits as they are |
//! | `functions` | functions of single rows |
//! | `rotary` | rotary position embeddings |

pub(crate) mod blocks;
pub(crate) mod functions;
pub(crate) mod kernel;
pub(crate) mod matrix;
pub(crate) mod pack;
pub(crate) mod rotary;
