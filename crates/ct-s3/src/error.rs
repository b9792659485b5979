//! What can go wrong between here and a bucket.

use std::io;

/// Why a bucket did not do what it was asked. Messages read well after "failed to …:", and say what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are told by the sentences")]
pub enum S3Error {
    /// Not an address of a bucket.
    #[error("{address:?} is no address of a bucket: {problem}")]
    Address { address: String, problem: String },
    /// Keys, region or endpoint cannot be found out, or make no sense.
    #[error("{problem}")]
    Config { problem: String },
    /// There is no such bucket.
    #[error(
        "there is no bucket {bucket} at {endpoint}: make it first, or correct its name or AWS_ENDPOINT_URL"
    )]
    NoBucket { bucket: String, endpoint: String },
    /// There is no such object.
    #[error("{key} is not in bucket {bucket}")]
    NotFound { bucket: String, key: String },
    /// A condition did not hold: something is there, or another thing than was expected.
    #[error("{key} in bucket {bucket} is there already, or is another than expected")]
    Precondition { bucket: String, key: String },
    /// The keys are not known there, or the signature is not theirs.
    #[error(
        "{endpoint} does not accept the keys ({code}: {message}); check AWS_ACCESS_KEY_ID, \
             AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_PROFILE"
    )]
    Keys { endpoint: String, code: String, message: String },
    /// The keys are good, and may not do this.
    #[error("the keys may not {doing} in bucket {bucket} ({code}: {message}); its owner has to allow it")]
    Forbidden { bucket: String, doing: &'static str, code: String, message: String },
    /// The clocks differ too much.
    #[error("the clock of this machine and that of {endpoint} differ too much ({message}); set the clock")]
    Clock { endpoint: String, message: String },
    /// No room.
    #[error("{endpoint} has no room left for bucket {bucket} ({message})")]
    Full { endpoint: String, bucket: String, message: String },
    /// No connection, or it broke, until patience ended.
    #[error("{endpoint} cannot be reached: {problem}; check the network and AWS_ENDPOINT_URL")]
    Unreachable { endpoint: String, problem: String },
    /// 429, 5xx until patience ended.
    #[error("{endpoint} is busy or out of order ({status} {code}: {message}); try again later")]
    Busy { endpoint: String, status: u16, code: String, message: String },
    /// Bytes arrived there as others than were sent, until patience ended.
    #[error("{key} arrived in bucket {bucket} as other bytes than were sent ({message})")]
    Altered { bucket: String, key: String, message: String },
    /// An upload in parts is not there.
    #[error("the upload of {key} to bucket {bucket} is not there any more")]
    NoUpload { bucket: String, key: String },
    /// Anything else it refused.
    #[error("{endpoint} refuses to {doing} ({status} {code}: {message})")]
    Refused { endpoint: String, doing: &'static str, status: u16, code: String, message: String },
    /// The answer is not one of this protocol.
    #[error("{endpoint} does not speak S3: {problem}")]
    Protocol { endpoint: String, problem: String },
    /// What is sent could not be read here.
    #[error("failed to read what is sent")]
    Read { source: io::Error },
}

impl S3Error {
    /// Whether a later attempt may help without anybody's hands.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy { .. })
    }

    /// As an error of a reader; [`S3Error::within`] finds it again.
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::NotFound { .. } | Self::NoBucket { .. } => io::ErrorKind::NotFound,
            Self::Keys { .. } | Self::Forbidden { .. } => io::ErrorKind::PermissionDenied,
            Self::Full { .. } => io::ErrorKind::StorageFull,
            Self::Unreachable { .. } => io::ErrorKind::NotConnected,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }

    /// The error that a reader wrapped, and others around it.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // An error of a reader passes over what it wraps when it is asked for its source.
            let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = match wrapped {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        None
    }
}
