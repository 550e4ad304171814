// Package openapi pins the generators with which the tests generate clients from the OpenAPI
// document: oapi-codegen for Go here, and openapi-typescript for TypeScript in package.json.
package openapi

import _ "github.com/oapi-codegen/runtime" // generated clients import it
