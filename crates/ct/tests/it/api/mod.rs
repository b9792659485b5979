//! What the server answers about runs and trajectories, over sockets.

mod documented;
mod golden;
mod http;
mod inspect;
mod pages;
mod samples;
mod zip;
