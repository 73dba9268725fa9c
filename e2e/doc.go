// Package e2e runs the real binaries as users do and looks at them from outside:
// on the embedded engine always, with nothing but Go; and with the build tag e2e on the
// SQS and DynamoDB at AWS_ENDPOINT_URL (scripts/with-emulators.sh starts them), in a
// browser, with Schemathesis and by the README's curl. With the tag and without one of
// these its tests fail; they never skip.
//
// It holds I1, I3, I4 and I5 over kill -9 of every process. It starts nothing that it
// does not stop, by its own process id, and keeps all data in directories of the test.
package e2e
