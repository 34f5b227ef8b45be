//! A device with all kernels compiled, and the one way to run them.

use std::sync::Arc;

use unskew_shaders::{Access, KERNELS, Kernel};
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// An error of a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no adapter.
    #[error("there is no GPU that Vulkan, Metal or DirectX 12 can use ({0}); sets work without one")]
    NoAdapter(String),
    /// The adapter gives no device.
    #[error("{adapter} gives no device: {reason}")]
    NoDevice {
        /// The name of the adapter.
        adapter: String,
        /// The reason.
        reason: String,
    },
    /// The set or a batch does not fit.
    #[error("{what} take {bytes} bytes, and {adapter} allows {limit}; sets work without a GPU")]
    TooLarge {
        /// The arrays that do not fit.
        what: &'static str,
        /// Their bytes.
        bytes: u64,
        /// The most bytes that the adapter allows.
        limit: u64,
        /// The name of the adapter.
        adapter: String,
    },
    /// The set has a subset or changes, and the kernel reads a set as it was built.
    #[error("the kernel knows neither subsets nor changes that lie beside a set")]
    Filtered,
    /// The set is damaged.
    #[error(transparent)]
    File(#[from] crate::SetFileError),
    /// A row of logits is no distribution.
    #[error("row {row} of the logits has an infinite logit, a NaN, or probability nowhere")]
    NotADistribution {
        /// The row of the batch.
        row: usize,
    },
    /// The device failed, or it has no memory left.
    #[error("{adapter}: {reason}")]
    Failed {
        /// The name of the adapter.
        adapter: String,
        /// The reason.
        reason: String,
    },
}

/// A GPU with the kernels compiled for it.
#[derive(Debug)]
pub struct Gpu {
    name: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipelines: Vec<(Kernel, wgpu::ComputePipeline)>,
    /// The largest binding, in bytes.
    binding: u64,
    /// The most workgroups in a row.
    row: u32,
}

/// An argument of a kernel.
pub(crate) enum Given<'a> {
    /// A buffer that lies on the device.
    There(&'a wgpu::Buffer),
    /// Words that the kernel reads.
    Words(&'a [u32]),
    /// Words that the kernel writes and that are read back.
    Out(&'a mut [u32]),
}

impl Gpu {
    /// The adapter that the system ranks fastest.
    ///
    /// # Errors
    ///
    /// [`GpuError::NoAdapter`], and [`GpuError::NoDevice`].
    pub fn new() -> Result<Arc<Self>, GpuError> {
        let options = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        };
        let adapter = pollster::block_on(instance().request_adapter(&options));
        Self::on(&adapter.map_err(|error| GpuError::NoAdapter(one_line(&error)))?)
    }

    /// Every adapter of the machine.
    pub fn all() -> Vec<Result<Arc<Self>, GpuError>> {
        let adapters = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::all()));
        adapters.iter().map(Self::on).collect()
    }

    fn on(adapter: &wgpu::Adapter) -> Result<Arc<Self>, GpuError> {
        let name = adapter.get_info().name;
        let descriptor =
            wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..wgpu::DeviceDescriptor::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| GpuError::NoDevice { adapter: name.clone(), reason: one_line(&error) })?;
        Ok(Self::shared(name, device, queue))
    }

    /// A device that other code has made and computes with too, such as a model's. The contents of its buffers need
    /// no read-back to be used here ([`Chooser`](super::Chooser)). The device does the work in the order in which
    /// both submit it to `queue`.
    ///
    /// This function and [`LogitBuffer`](super::LogitBuffer) are the two places where this crate's interface has
    /// types of wgpu, because the two sides share handles. The device should have the limits of its adapter: a device
    /// with wgpu's default limits has few storage buffers.
    pub fn shared(name: String, device: wgpu::Device, queue: wgpu::Queue) -> Arc<Self> {
        let limits = device.limits();
        let compile = |kernel: Kernel| {
            let source = wgpu::ShaderSource::Wgsl(kernel.source.into());
            let descriptor = wgpu::ShaderModuleDescriptor { label: Some(kernel.name), source };
            let module = device.create_shader_module(descriptor);
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel.name),
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            });
            (kernel, pipeline)
        };
        let pipelines = KERNELS.into_iter().map(compile).collect();
        // Whole words, and 32 bits can number them.
        let binding = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(1 << 33) / 4 * 4;
        Arc::new(Self {
            name,
            device,
            queue,
            pipelines,
            binding,
            row: limits.max_compute_workgroups_per_dimension,
        })
    }

    /// The name of the adapter.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The largest binding, in bytes: larger arrays are divided.
    pub fn max_binding(&self) -> u64 {
        self.binding
    }

    pub(crate) fn failed(&self, reason: impl std::fmt::Display) -> GpuError {
        GpuError::Failed { adapter: self.name.clone(), reason: one_line(&reason) }
    }

    /// Whether `bytes` bytes can be bound.
    pub(crate) fn fits(&self, what: &'static str, bytes: usize, limit: u64) -> Result<(), GpuError> {
        let bytes = bytes as u64;
        if bytes <= limit {
            return Ok(());
        }
        Err(GpuError::TooLarge { what, bytes, limit, adapter: self.name.clone() })
    }

    /// A buffer with these words, or one word for none: an empty buffer cannot be bound.
    pub(crate) fn upload(&self, words: &[u32], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let mut bytes = to_bytes(words);
        bytes.resize(bytes.len().max(4), 0);
        self.device.create_buffer_init(&BufferInitDescriptor { label: None, contents: &bytes, usage })
    }

    /// Makes buffers, or returns the error that there is no memory for them.
    pub(crate) fn with_memory<T>(&self, make: impl FnOnce(&Self) -> T) -> Result<T, GpuError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let made = make(self);
        match pollster::block_on(scope.pop()) {
            Some(error) => Err(self.failed(error)),
            None => Ok(made),
        }
    }

    /// `groups` workgroups in rows. The length of a row is limited, so there may be several rows. Lanes are numbered
    /// with 32 bits.
    pub(crate) fn grid(&self, kernel: &Kernel, groups: usize) -> Result<[u32; 2], GpuError> {
        let (rows, row) = (groups.div_ceil(self.row as usize), groups.min(self.row as usize));
        self.fits("the lanes of a batch", rows * row * kernel.workgroup as usize, u32::MAX.into())?;
        Ok([row as u32, rows as u32])
    }

    pub(crate) fn pipeline(&self, kernel: &Kernel) -> &wgpu::ComputePipeline {
        let known = self.pipelines.iter().find(|(known, _)| known.name == kernel.name);
        known.map(|(_, pipeline)| pipeline).expect("all are compiled")
    }

    pub(crate) fn device(&self) -> &wgpu::Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// Runs a kernel with `groups` workgroups and reads back the words that it has written.
    pub(crate) fn run(&self, kernel: &Kernel, groups: usize, given: Vec<Given<'_>>) -> Result<(), GpuError> {
        for given in &given {
            let len = match given {
                Given::There(_) => 0,
                Given::Words(words) => words.len(),
                Given::Out(words) => words.len(),
            };
            self.fits("the numbers of a batch", 4 * len, self.binding)?;
        }
        let grid = self.grid(kernel, groups)?;
        let pipeline = self.pipeline(kernel);
        let mut written = Vec::new();
        let buffers = self.with_memory(|gpu| {
            let buffers = given.into_iter().zip(kernel.bindings).map(|(given, binding)| match given {
                Given::There(buffer) => buffer.clone(),
                Given::Words(words) => {
                    let usage = match binding.access {
                        Access::Uniform => wgpu::BufferUsages::UNIFORM,
                        Access::Read | Access::ReadWrite => wgpu::BufferUsages::STORAGE,
                    };
                    gpu.upload(words, usage)
                }
                Given::Out(words) => {
                    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
                    let buffer = gpu.upload(words, usage);
                    let back = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                        label: None,
                        size: buffer.size(),
                        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                        mapped_at_creation: false,
                    });
                    written.push((words, buffer.clone(), back));
                    buffer
                }
            });
            buffers.collect::<Vec<wgpu::Buffer>>()
        })?;
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0..)
            .zip(&buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let bind_group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &bind_group, &[]);
            let [row, rows] = grid;
            pass.dispatch_workgroups(row, rows, 1);
        }
        for (_, buffer, back) in &written {
            encoder.copy_buffer_to_buffer(buffer, 0, back, 0, buffer.size());
        }
        self.queue.submit([encoder.finish()]);
        for (words, _, back) in written {
            words.copy_from_slice(&self.read(&back, words.len())?);
        }
        Ok(())
    }

    /// Waits for the device and reads the first words of a buffer that can be mapped.
    pub(crate) fn read(&self, back: &wgpu::Buffer, words: usize) -> Result<Vec<u32>, GpuError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        back.map_async(wgpu::MapMode::Read, ..4 * words as u64, move |result| {
            // The receiver is gone if the wait has failed.
            let _ = sender.send(result);
        });
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| self.failed(error))?;
        receiver.recv().map_err(|error| self.failed(error))?.map_err(|error| self.failed(error))?;
        let bytes = back.get_mapped_range(..4 * words as u64).map_err(|error| self.failed(error))?;
        let read = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        drop(bytes);
        back.unmap();
        Ok(read)
    }
}

fn instance() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle())
}

fn one_line(message: &impl std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Words in the device's byte order.
pub(super) fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
