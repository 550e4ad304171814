// Package openapi pins what the tests generate clients with from the OpenAPI document: oapi-codegen
// for Go here, and openapi-typescript for TypeScript in package.json.
package openapi

import _ "github.com/oapi-codegen/runtime" // generated clients import it
