//! The SOL003 facade: routes, ProblemDetails, composition root.
