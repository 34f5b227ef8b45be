//! From the options of a sampler to a request.

use crate::{
    Draft, Method, Request, Truncate,
    samplers::{SampleError, Truncation},
};

use crate::command_line::{
    args::{SamplerArgs, TruncateOrder},
    error::{Failure, Result, chain},
};

impl SamplerArgs {
    /// The truncation that is asked for, and its place.
    fn truncation(&self) -> Result<Option<Truncate>> {
        let Self { top_k, top_p, truncate, .. } = self;
        let Some(order) = truncate else { return Ok(None) };
        if top_k.is_none() && top_p.is_none() {
            return Err(Failure::input("--truncate says when --top-k or --top-p apply; give one of them"));
        }
        let truncation: Truncation = Truncate::top(*top_k, *top_p)?;
        Ok(Some(match order {
            TruncateOrder::BeforeMask => Truncate::BeforeMask(truncation),
            TruncateOrder::AfterMask => Truncate::AfterMask(truncation),
        }))
    }

    /// The request with these options, but for the draft.
    pub(crate) fn apply(&self, request: Request) -> Result<Request> {
        let request = request.temperature(self.temperature).truncate(self.truncation()?);
        Ok(request.batch(self.batch.get()).time_limit(self.time_limit))
    }

    /// The draft that is asked for.
    pub(crate) fn draft(&self) -> Result<Option<Draft>> {
        Ok(self.draft_model.as_deref().map(Draft::open).transpose()?)
    }
}

/// Why a sampler has no output, with the parameters that help.
pub(crate) fn failed(method: &Method, error: crate::Error) -> Failure {
    let crate::Error::Sample(reason) = &error else { return error.into() };
    #[cfg(feature = "http")]
    if let SampleError::Model(inner) = reason
        && inner.downcast_ref::<crate::endpoint::DrawError>().is_some()
            | inner.downcast_ref::<crate::endpoint::EndpointError>().is_some()
    {
        return Failure::Other(crate::command_line::error::in_flags(&chain(&error)));
    }
    let message = chain(&error);
    let name = method.name();
    let way_out = match (reason, method) {
        (SampleError::NoOutput { .. }, Method::Beam(_)) => {
            "a wider beam is --sampler beam:n=N, longer outputs are --max-tokens".to_owned()
        }
        (SampleError::NoOutput { .. }, _) if method.info().parameter("tries").is_some() => format!(
            "longer outputs are --max-tokens, more tries --sampler {name}:tries=N; --sampler disc ends within bounds, and --sampler masked never rejects"
        ),
        (SampleError::NoOutput { .. }, _) => {
            "longer outputs are --max-tokens; --sampler masked never rejects".to_owned()
        }
        (SampleError::TooLong { .. }, _) => "longer outputs are --max-tokens".to_owned(),
        _ => return Failure::Other(message),
    };
    Failure::Other(format!("{message} ({way_out})"))
}
