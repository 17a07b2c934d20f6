//! CSAR and TOSCA: bytes to a typed descriptor, or findings with file:line:column.
