//! The model of a command: its weights with a bar while they are read.

use crate::{
    Model,
    command_line::{
        args::{ModelArgs, Quantize},
        error::{Failure, Result},
        progress,
    },
    runner::{LoadOptions, LoadProgress, Quantization},
};

/// Loads the model of a command.
pub(crate) fn load(args: &ModelArgs) -> Result<Model> {
    #[cfg(feature = "http")]
    if let crate::ModelSource::Endpoint(address) = &args.model {
        let options = args.endpoint.as_deref().unwrap_or_default().parse();
        let options = options.map_err(|error: crate::endpoint::EndpointError| Failure::endpoint(&error))?;
        if args.quantize.is_some() {
            return Err(Failure::input("--quantize is for weights that are loaded here; leave it out"));
        }
        return Ok(Model::connect(address, args.tokenizer.as_deref(), &options)?);
    }
    if args.endpoint.is_some() && !matches!(args.model, crate::ModelSource::Endpoint(_)) {
        return Err(Failure::input("--endpoint is for a server: --model http://HOST:PORT"));
    }
    let mut bar = None;
    let mut show = |LoadProgress { done, total }: LoadProgress| {
        bar.get_or_insert_with(|| progress::of_bytes(total)).set_position(done);
    };
    let mut options = LoadOptions::default();
    options.on_progress = Some(&mut show);
    if args.quantize == Some(Quantize::Q8_0) {
        options.quantization = Quantization::Q8_0;
    }
    let model = Model::load_with(&args.model, args.tokenizer.as_deref(), &mut options);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(model?)
}
