"""What the rules of this room refuse, in the words that a client sees. Who answers requests gives them a status."""


class SchemaRefused(ValueError):
    """An update of a registry, or a part of it, that is not taken."""


class LensVersionMismatch(SchemaRefused):
    """A lens between other versions than the next step of its registry."""


class EntryRefused(ValueError):
    """An entry that its stream's schema, or its routing key, does not allow."""


class LensFailed(ValueError):
    """A lens cannot be applied to a document."""
