//! Prompts: a text, tokens, or the messages of a chat.
//!
//! Messages are JSON, as OpenAI's interface has them, and reach a template as they are written: templates read fields
//! that no type of ours would have.

use serde_json::{Map, Value, value::RawValue};
use unskew_core::TokenId;

use super::{
    Model, Request,
    error::{Error, Result},
};

/// A prompt: outputs follow it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Tokens. Nothing is put in front of them.
    Ids(Vec<TokenId>),
    /// The messages of a chat; outputs are answers to them.
    Chat(Chat),
}

/// The messages of a chat, and the tools that its template is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chat {
    /// A list in JSON.
    messages: String,
    /// A list in JSON.
    tools: Option<String>,
}

impl Chat {
    /// One message of a user.
    pub fn user(message: &str) -> Self {
        // In the order of OpenAI's interface, which a template may show.
        let content = Value::from(message);
        Self { messages: format!(r#"[{{"role":"user","content":{content}}}]"#), tools: None }
    }

    /// Messages in JSON: `[{"role": "system", "content": "..."}, {"role": "user", "content": "..."}]`.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] where it is no list of objects with a `role`, or the list is empty.
    pub fn from_json(messages: &str) -> Result<Self> {
        let list: Vec<Map<String, Value>> = serde_json::from_str(messages)
            .map_err(|error| Error::combination(format!("`messages` are a list of objects: {error}")))?;
        if list.is_empty() {
            return Err(Error::combination("`messages` are none; give one or more"));
        }
        match list.iter().position(|message| !message.get("role").is_some_and(Value::is_string)) {
            Some(at) => Err(Error::combination(format!("`messages`: the message {at} has no `role`"))),
            None => Ok(Self { messages: messages.to_owned(), tools: None }),
        }
    }

    /// The same with tools, in JSON, in the form of OpenAI's interface: the template tells the model of them.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] where it is no list.
    pub fn with_tools(self, tools: &str) -> Result<Self> {
        serde_json::from_str::<Vec<&RawValue>>(tools)
            .map_err(|error| Error::combination(format!("`tools` are a list: {error}")))?;
        Ok(Self { tools: Some(tools.to_owned()), ..self })
    }

    #[cfg(any(feature = "chat", feature = "http"))]
    pub(super) fn messages(&self) -> &str {
        &self.messages
    }

    pub(super) fn tools(&self) -> Option<&str> {
        self.tools.as_deref()
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<TokenId>> for Prompt {
    fn from(ids: Vec<TokenId>) -> Self {
        Self::Ids(ids)
    }
}

impl From<Chat> for Prompt {
    fn from(chat: Chat) -> Self {
        Self::Chat(chat)
    }
}

/// One message of a user.
impl From<&str> for Chat {
    fn from(message: &str) -> Self {
        Self::user(message)
    }
}

impl Model {
    /// A request for answers to a chat. Where a server runs the model, it puts the messages into its own template, and
    /// outputs are drawn whole, by rejection.
    ///
    /// # Errors
    ///
    /// As [`encode_chat`](Self::encode_chat).
    pub fn chat(&self, chat: impl Into<Chat>) -> Result<Request> {
        self.prompt("").after(chat.into())
    }
}

impl Request {
    /// The same request after another prompt: the constraint is compiled once for all of them.
    ///
    /// # Example
    ///
    /// Two outputs after each prompt, as independent as those of one are, and the same for each run:
    ///
    /// ```
    /// # #[cfg(all(feature = "runner", feature = "tiny-model"))]
    /// # fn main() -> Result<(), unskew::Error> {
    /// use unskew::{Model, Spec};
    ///
    /// let request = Model::open("tiny")?.prompt("").constrain(Spec::regex("[A-Z][a-z]{2,9}"))?.seed(1);
    /// for (index, prompt) in ["Dear Ms ", "Kind regards,\n"].into_iter().enumerate() {
    ///     for output in request.clone().after(prompt)?.stream(index as u64).sample("cars")?.take(2) {
    ///         println!("{prompt:?}: {}", output?.text);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(all(feature = "runner", feature = "tiny-model")))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Model::encode_chat`], for a chat with a model that no server runs.
    pub fn after(mut self, prompt: impl Into<Prompt>) -> Result<Self> {
        self.prompt = match prompt.into() {
            Prompt::Chat(chat) if !self.model.is_remote() => Prompt::Ids(self.model.encode_chat(chat)?),
            Prompt::Chat(chat) if chat.tools().is_some() => {
                return Err(Error::combination(
                    "a server that is told of tools takes the calls out of the text itself; describe them in a message, and \
                     leave `chat` or `tools` out",
                ));
            }
            prompt => prompt,
        };
        Ok(self)
    }

    /// Draws with the random numbers of this number among the streams of the seed. They are independent of each other,
    /// so that each of several prompts has one. Default: 0.
    #[must_use]
    pub fn stream(mut self, stream: u64) -> Self {
        self.stream = stream;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lists_of_objects_with_roles() {
        let user = Chat::user("a \"b\"\n");
        assert_eq!(Chat::from_json(&user.messages).unwrap(), user);
        for (text, words) in [
            ("{}", "a list of objects"),
            ("[]", "give one or more"),
            (r#"[{"role": "user"}, {"content": "a"}]"#, "the message 1 has no `role`"),
        ] {
            let error = Chat::from_json(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(user.with_tools("{}").is_err());
    }
}
