//! Who asks, and where: from variables and from the files that other tools for S3 read.

use std::fs;
use std::path::{Path, PathBuf};

use url::Url;

use crate::error::S3Error;
use crate::http::Patience;
use crate::{Result, S3Address};

/// Says what a variable of the environment holds; empty ones count as unset.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

const REGION_DEFAULT: &str = "us-east-1";
/// Bytes of a file of profiles.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The right to ask. Nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Whose.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: String,
    /// Of keys that are good for a time.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}…)", self.access_key_id)
    }
}

/// Where buckets are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Some service: its address, with the bucket as the first step of a path.
    Endpoint(Url),
    /// The one of the region.
    Region,
}

/// How a bucket is reached.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where.
    pub place: Place,
    /// Where clients reach the same buckets, when that is elsewhere: for addresses that are handed out.
    pub public_place: Option<Url>,
    /// Goes into signatures.
    pub region: String,
    /// Who asks.
    pub credentials: Credentials,
    /// How long to go on trying.
    pub patience: Patience,
}

impl Config {
    /// Reads `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, else the profile `AWS_PROFILE` (else `default`) of
    /// `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE`, which are `credentials` and `config` in `.aws` of the home.
    pub fn from_variables(variables: Variables<'_>, home: Option<&Path>) -> Result<Self> {
        let get = |name: &str| variables(name).map(|value| value.trim().to_owned()).filter(|v| !v.is_empty());
        let profile = get("AWS_PROFILE");
        let file = |variable: &str, name: &str| {
            get(variable).map(PathBuf::from).or_else(|| Some(home?.join(".aws").join(name)))
        };
        let name = profile.as_deref().unwrap_or("default");
        let credentials_file = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config_file = file("AWS_CONFIG_FILE", "config");
        let secrets = Profile::read(credentials_file.as_deref(), name)?;
        let settings = Profile::read(config_file.as_deref(), name)?;
        if profile.is_some() && secrets.is_none() && settings.is_none() {
            let problem = format!("there is no profile {name} (AWS_PROFILE) in the files below ~/.aws");
            return Err(S3Error::Config { problem });
        }
        let of_profile = |key: &str| {
            let found = [&secrets, &settings].into_iter().flatten().find_map(|profile| profile.get(key));
            found.map(str::to_owned)
        };
        let keys = match (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret_access_key)) => {
                let session_token = get("AWS_SESSION_TOKEN");
                Some(Credentials { access_key_id, secret_access_key, session_token })
            }
            (None, None) => match (of_profile("aws_access_key_id"), of_profile("aws_secret_access_key")) {
                (Some(access_key_id), Some(secret_access_key)) => {
                    let session_token = of_profile("aws_session_token");
                    Some(Credentials { access_key_id, secret_access_key, session_token })
                }
                _ => None,
            },
            _ => {
                let problem = "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set".to_owned();
                return Err(S3Error::Config { problem });
            }
        };
        let credentials = keys.ok_or_else(|| S3Error::Config {
            problem: format!(
                "there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give profile {name} \
                 keys in ~/.aws/credentials"
            ),
        })?;
        let endpoint = get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.or_else(|| of_profile("endpoint_url"));
        let place = match endpoint {
            Some(text) => Place::Endpoint(endpoint_url(&text)?),
            None => Place::Region,
        };
        let region = get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION")).or_else(|| of_profile("region"));
        let region = region.unwrap_or_else(|| REGION_DEFAULT.to_owned());
        if !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(S3Error::Config {
                problem: format!("{region:?} is no name of a region (AWS_REGION)"),
            });
        }
        Ok(Self { place, public_place: None, region, credentials, patience: Patience::default() })
    }

    /// The address of a bucket, without a slash at its end; for who is told it, or for ourselves.
    pub(crate) fn bucket_url(&self, bucket: &str, public: bool) -> Result<Url> {
        let place = match (&self.public_place, &self.place) {
            (Some(url), _) if public => Some(url),
            (_, Place::Endpoint(url)) => Some(url),
            (_, Place::Region) => None,
        };
        let text = match place {
            Some(url) => format!("{}/{bucket}", url.as_str().trim_end_matches('/')),
            // A name with dots matches no certificate.
            None if bucket.contains('.') => format!("https://s3.{}.amazonaws.com/{bucket}", self.region),
            None => format!("https://{bucket}.s3.{}.amazonaws.com", self.region),
        };
        Url::parse(&text).map_err(|error| S3Error::Config { problem: format!("{text:?}: {error}") })
    }

    /// The service as it is told to people.
    pub fn endpoint(&self) -> String {
        match &self.place {
            Place::Endpoint(url) => url.as_str().trim_end_matches('/').to_owned(),
            Place::Region => format!("s3.{}.amazonaws.com", self.region),
        }
    }
}

/// The address of a service.
pub(crate) fn endpoint_url(text: &str) -> Result<Url> {
    let wrong = |problem: &str| S3Error::Config {
        problem: format!("{text:?} is no address of an S3 service ({problem}): expected http(s)://host:port"),
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it is neither http nor https"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(wrong("it has a query or a user"));
    }
    Ok(url)
}

impl Config {
    /// The same, with another address for clients.
    pub fn with_public_place(mut self, text: &str) -> Result<Self> {
        self.public_place = Some(endpoint_url(text)?);
        Ok(self)
    }

    /// What tells this place from others, for a store that remembers where its logs are.
    pub fn identity(&self, address: &S3Address) -> String {
        let place = match &self.place {
            Place::Endpoint(url) => url.as_str().trim_end_matches('/').to_owned(),
            Place::Region => "aws".to_owned(),
        };
        format!("{address} at {place}")
    }
}

/// One section of a file of profiles.
#[derive(Debug, Default)]
struct Profile(Vec<(String, String)>);

impl Profile {
    /// A profile; absent when the file or the section is.
    fn read(path: Option<&Path>, name: &str) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let size = match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(_) => return Ok(None),
        };
        let problem = |what: String| S3Error::Config { problem: format!("{}: {what}", path.display()) };
        if size > FILE_BYTES_MAX {
            return Err(problem("this is no file of profiles".to_owned()));
        }
        let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
        Ok(Self::parse(&text, name))
    }

    fn parse(text: &str, name: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut inside = false;
        for line in text.lines() {
            let nested = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                let section = section.trim();
                let section = section.strip_prefix("profile ").unwrap_or(section).trim();
                inside = section == name;
                if inside {
                    found.get_or_insert_default();
                }
                continue;
            }
            // Settings of a service stand below it, and are not those of the profile.
            if let (true, false, Some((key, value))) = (inside, nested, line.split_once('=')) {
                let value = value.split(" #").next().unwrap_or_default().trim().to_owned();
                let profile = found.get_or_insert_default();
                profile.0.push((key.trim().to_ascii_lowercase(), value));
            }
        }
        found
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, value)| name == key && !value.is_empty()).map(|(_, v)| v.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)], home: Option<&Path>) -> Result<Config> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::from_variables(&get, home)
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];

    #[test]
    fn variables_are_read() {
        let found = config(&KEYS, None).unwrap();
        assert_eq!((found.place.clone(), found.region.as_str()), (Place::Region, "us-east-1"));
        assert_eq!(
            found.bucket_url("logs", false).unwrap().as_str(),
            "https://logs.s3.us-east-1.amazonaws.com/"
        );
        let dotted = found.bucket_url("a.logs", false).unwrap();
        assert_eq!(dotted.as_str(), "https://s3.us-east-1.amazonaws.com/a.logs");
        let more = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"), ("AWS_DEFAULT_REGION", "eu-west-1")];
        let found = config(&[&KEYS[..], &more].concat(), None).unwrap();
        assert_eq!(found.bucket_url("logs", false).unwrap().as_str(), "http://127.0.0.1:9000/logs");
        assert_eq!(
            (found.region.as_str(), found.endpoint().as_str()),
            ("eu-west-1", "http://127.0.0.1:9000")
        );
        let public = found.with_public_place("https://s3.example.org").unwrap();
        assert_eq!(public.bucket_url("logs", true).unwrap().as_str(), "https://s3.example.org/logs");
        assert_eq!(public.bucket_url("logs", false).unwrap().as_str(), "http://127.0.0.1:9000/logs");
        let special = [("AWS_ENDPOINT_URL_S3", "http://s3"), ("AWS_ENDPOINT_URL", "http://other")];
        let found = config(&[&KEYS[..], &special].concat(), None).unwrap();
        assert_eq!(found.endpoint(), "http://s3");
    }

    #[test]
    fn what_is_missing_or_odd_is_told() {
        for (variables, word) in [
            (vec![], "AWS_ACCESS_KEY_ID"),
            (vec![("AWS_ACCESS_KEY_ID", "id")], "only one"),
            ([&KEYS[..], &[("AWS_ENDPOINT_URL", "localhost:9000")]].concat(), "http(s)://"),
            ([&KEYS[..], &[("AWS_REGION", "a/b")]].concat(), "AWS_REGION"),
            ([&KEYS[..], &[("AWS_PROFILE", "team")]].concat(), "profile team"),
        ] {
            let error = config(&variables, None).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn profiles_are_read() {
        let home = std::env::temp_dir().join(format!("ct-s3-profiles-{}", std::process::id()));
        fs::create_dir_all(home.join(".aws")).unwrap();
        let secrets = "[default]\naws_access_key_id=d\naws_secret_access_key = ds # mine\n\n[team]\n\
                       aws_access_key_id=t\naws_secret_access_key=ts\naws_session_token=tt\n";
        fs::write(home.join(".aws/credentials"), secrets).unwrap();
        let settings = "[default]\nregion = eu-north-1\n[profile team]\nregion=us-west-2\n\
                        endpoint_url = http://team:1\ns3 =\n  endpoint_url = http://nested\n";
        fs::write(home.join(".aws/config"), settings).unwrap();
        let found = config(&[], Some(&home)).unwrap();
        assert_eq!(
            (found.credentials.secret_access_key.as_str(), found.region.as_str()),
            ("ds", "eu-north-1")
        );
        let found = config(&[("AWS_PROFILE", "team"), ("AWS_REGION", "here")], Some(&home)).unwrap();
        assert_eq!(found.credentials.session_token.as_deref(), Some("tt"));
        assert_eq!((found.endpoint().as_str(), found.region.as_str()), ("http://team:1", "here"));
        // Keys of the environment come before those of a file.
        let found = config(&KEYS, Some(&home)).unwrap();
        assert_eq!(found.credentials.access_key_id, "id");
        fs::remove_dir_all(&home).unwrap();
    }
}
