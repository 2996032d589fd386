"""Generated code of the v1 wire format; see the .proto files beside it."""
